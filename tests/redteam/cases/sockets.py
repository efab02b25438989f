"""Sockets that lead past every network namespace, and the side doors to them."""

from __future__ import annotations

from ..case import Case, Category, python, skill
from ..criteria import heard, leaked, printed

SOCKET: Category = "socket"
OPENED = printed(r"opened (family )?\d+")

MACHINE_CODE = """
    import mmap
    def run(code):
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(code)
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    def in_child(code):
        child = os.fork()
        if child == 0:
            result = run(code)
            print("opened" if result >= 0 else "failed", abs(result), flush=True)
            os._exit(0)
        print("child", os.waitpid(child, 0)[1])
"""

CASES = (
    Case(
        "vsock",
        SOCKET,
        "open AF_VSOCK, of every type",
        (
            (
                python("""
                    for kind in (1, 2, 5):
                        attempt(lambda: print("opened", socket.socket(40, kind).fileno()))
                """),
            ),
        ),
        OPENED,
    ),
    Case(
        "vsock-by-skill",
        SOCKET,
        "open AF_VSOCK in a skill",
        ((skill("attempt(lambda: print('opened', socket.socket(40, 1).fileno()))"),),),
        OPENED,
    ),
    Case(
        "vsock-by-high-bits",
        SOCKET,
        "open AF_VSOCK with bits in the family that a filter compares and the kernel drops",
        (
            (
                python("""
                    for family in (40 | 1 << 32, 40 | 1 << 63, 40 | 0xABCD << 32):
                        family -= (family >> 63) << 64
                        got = call(41, family, 1, 0)
                        print("opened" if got >= 0 else "failed", abs(got))
                """),
            ),
        ),
        OPENED,
    ),
    Case(
        "vsock-by-io-uring",
        SOCKET,
        "open AF_VSOCK through io_uring, which makes sockets without the system call",
        (
            (
                python("""
                    import mmap
                    def by_ring():
                        parameters = ctypes.create_string_buffer(120)
                        ring = call(425, 4, parameters)
                        print("ring", ring)
                        if ring < 0:
                            return
                        values = struct.unpack("=30I", parameters.raw)
                        sq, cq = values[10:20], values[20:30]
                        rings = mmap.mmap(ring, 4096, offset=0)
                        entries = mmap.mmap(ring, 4096, offset=0x10000000)
                        entries[:64] = struct.pack("=BBHiQQIIQ24x", 45, 0, 0, 40, 1, 0, 0, 0, 7)
                        rings[sq[6]:sq[6] + 4] = struct.pack("=I", 0)
                        rings[sq[1]:sq[1] + 4] = struct.pack("=I", 1)
                        print("entered", call(426, ring, 1, 1, 1, None, 0))
                        result = struct.unpack("=i", rings[cq[5] + 8:cq[5] + 12])[0]
                        print("opened" if result >= 0 else "failed", abs(result))
                    attempt(by_ring)
                """),
            ),
        ),
        OPENED,
    ),
    Case(
        "vsock-by-x32",
        SOCKET,
        "open AF_VSOCK by the numbers of the x32 interface",
        (
            (
                python("""
                    got = call(0x40000000 | 41, 40, 1, 0)
                    print("opened" if got >= 0 else "failed", abs(got))
                """),
            ),
        ),
        OPENED,
        held_bare="this kernel may have been built without the x32 interface",
    ),
    Case(
        "vsock-by-32-bit-call",
        SOCKET,
        "open AF_VSOCK by the 32 bit interface, in machine code",
        (
            (
                # push rbx; mov eax, 359; mov ebx, 40; mov ecx, 1; xor edx, edx; int 0x80; pop rbx; ret
                python(MACHINE_CODE, 'in_child(bytes.fromhex("53b867010000bb28000000b90100000031d2cd805bc3"))'),
            ),
        ),
        OPENED,
    ),
    Case(
        "vsock-behind-a-filter-of-one-s-own",
        SOCKET,
        "put a filter that allows everything on top, then open AF_VSOCK",
        (
            (
                python("""
                    class Program(ctypes.Structure):
                        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
                    everything = Program(1, struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
                    libc.prctl(38, 1, 0, 0, 0)
                    print("filter", call(317, 1, 0, ctypes.byref(everything)))
                    attempt(lambda: print("opened", socket.socket(40, 1).fileno()))
                """),
            ),
        ),
        OPENED,
    ),
    Case(
        "packets",
        SOCKET,
        "listen to the machine's packets with AF_PACKET",
        ((python("attempt(lambda: print('opened', socket.socket(17, 3, 0x300).fileno()))"),),),
        OPENED,
    ),
    Case(
        "all-families",
        SOCKET,
        "open a socket of every family that programs have no use for",
        (
            (
                python("""
                    for family in sorted({*range(0, 64)} - {1, 2, 10, 16}):
                        for kind in (1, 2, 3, 5):
                            got = call(41, family, kind, 0)
                            if got >= 0:
                                print("opened family", family)
                        pair = (ctypes.c_int * 2)()
                        if call(53, family, 1, 0, pair) >= 0:
                            print("opened family", family)
                """),
            ),
        ),
        OPENED,
    ),
    Case(
        "inherited-sockets",
        SOCKET,
        "send over every socket that was left open on the way to the command",
        (
            (
                python("""
                    for number in range(3, 300):
                        try:
                            os.write(number, b"@MARK@")
                        except OSError:
                            pass
                """),
            ),
        ),
        heard(),
        held_bare="descriptors are closed for every command",
    ),
    Case(
        "socket-of-the-server-by-pidfd",
        SOCKET,
        "take the server's open connection over and send on it",
        (
            (
                python("""
                    handle = call(434, @PID@, 0)
                    for number in range(3, 30):
                        taken = call(438, handle, number, 0) if handle >= 0 else -1
                        if taken >= 0 and os.readlink(f"/proc/self/fd/{taken}").startswith("socket") and number == 8:
                            attempt(os.write, taken, b"@MARK@")
                """),
            ),
        ),
        heard("tcp"),
    ),
    Case(
        "descriptors-from-the-host",
        SOCKET,
        "be handed an open file over a unix socket of the host",
        (
            (
                python("""
                    import array
                    for address in ("\\0redteam-host", "/run/host.sock"):
                        def take():
                            with socket.socket(socket.AF_UNIX) as one:
                                one.settimeout(2)
                                one.connect(address)
                                _, rights, _, _ = one.recvmsg(100, 100)
                                got = array.array("i", rights[0][2])[0]
                                print(os.read(got, 100))
                        attempt(take)
                """),
            ),
        ),
        leaked("inherited"),
    ),
    Case(
        "raw-sockets",
        SOCKET,
        "make packets of one's own with raw sockets",
        (
            (
                python("""
                    for family, protocol in ((2, 255), (2, 1), (10, 58), (2, 6)):
                        attempt(lambda: print("opened", socket.socket(family, 3, protocol).fileno()))
                """),
            ),
        ),
        OPENED,
    ),
)
