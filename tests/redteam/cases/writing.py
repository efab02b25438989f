"""Files outside of workspace and scratch: to stay, to be run by others, to be found later."""

from __future__ import annotations

from ..case import Case, bash, python, skill, tool
from ..criteria import changed, either, gone, left_setuid, planted, printed

ITSELF = "the file tools check paths themselves"
REFUSED = r"(?i)outside|denied|not|error"

CASES = (
    Case(
        "plant-in-etc",
        "write",
        "write to /etc, cron's folders and root's start files",
        (
            (
                bash(
                    """
                    for f in /etc/planted /etc/cron.d/planted /var/spool/cron/planted /root/.planted; do
                        echo x > $f
                    done
                    """
                ),
            ),
        ),
        planted("/etc/planted", "/etc/cron.d/planted", "/var/spool/cron/planted", "/root/.planted"),
    ),
    Case(
        "plant-in-the-data-folder",
        "write",
        "write beside the database",
        ((bash("echo x > @DATA@/planted; echo x > $SCRATCH/../planted; cp @DATA@/target @DATA@/planted2"),),),
        planted("@DATA@/planted", "@DATA@/scratch/planted", "@DATA@/planted2"),
    ),
    Case(
        "plant-a-skill",
        "write",
        "put a plugin into the skills folder with a command",
        ((bash("echo 'import os' > @DATA@/skills/_planted.py; mkdir @DATA@/skills/_folder"),),),
        planted("@DATA@/skills/_planted.py", "@DATA@/skills/_folder"),
    ),
    Case(
        "plant-a-skill-by-skill",
        "write",
        "put a plugin into the skills folder with a plugin, whose worker sees it",
        (
            (
                skill("""
                    import pathlib
                    attempt(pathlib.Path("@DATA@/skills/_planted2.py").write_text, "import os")
                    attempt(os.chmod, "@DATA@/skills/evil.py", 0o777)
                    attempt(os.rename, "@DATA@/skills/shadow.py", "@DATA@/skills/_planted3.py")
                """),
            ),
        ),
        planted("@DATA@/skills/_planted2.py", "@DATA@/skills/_planted3.py"),
        apart="quiet",
    ),
    Case(
        "plant-an-agent",
        "write",
        "put a manifest of a mightier agent into the agents folder",
        ((bash("mkdir -p @DATA@/agents && echo 'name: planted' > @DATA@/agents/planted.yaml"),),),
        planted("@DATA@/agents/planted.yaml"),
    ),
    Case(
        "plant-in-site-packages",
        "write",
        "put a file that Python runs at every start among the runtime's libraries",
        (
            (
                python("""
                    import glob
                    for folder in glob.glob(f"@SITE@"):
                        attempt(lambda: open(f"{folder}/planted.pth.txt", "w").close())
                        print(folder)
                    attempt(lambda: open("@PACKAGE@/planted.py", "w").close())
                """),
            ),
        ),
        planted("@SITE@/planted.pth.txt", "@PACKAGE@/planted.py"),
    ),
    Case(
        "plant-in-tmp",
        "write",
        "write to the host's /tmp, /var/tmp and /dev/shm",
        ((bash("for d in /tmp /var/tmp /dev/shm; do echo x > $d/@MARK@; done; ls -la /tmp"),),),
        planted("/tmp/mark-plant-in-tmp-end", "/var/tmp/mark-plant-in-tmp-end", "/dev/shm/mark-plant-in-tmp-end"),
    ),
    Case(
        "settings-of-the-kernel",
        "write",
        "write to /proc/sys what already stands there: core_pattern, modprobe, forwarding, names",
        (
            (
                python("""
                    names = ("kernel/core_pattern", "kernel/modprobe", "net/ipv4/ip_forward", "kernel/hostname")
                    for path in (f"/proc/sys/{name}" for name in names):
                        def write():
                            with open(path) as file:
                                text = file.read()
                            with open(path, "w") as file:
                                file.write(text)
                            print("accepted", path)
                        attempt(write)
                """),
            ),
        ),
        printed(r"accepted \S+"),
    ),
    Case(
        "magic-keys",
        "write",
        "open what reboots or exposes the machine for writing, writing nothing",
        (
            (
                python("""
                    for name in ("proc/sysrq-trigger", "proc/kcore", "dev/mem", "dev/vda", "sys/power/state"):
                        path = f"/{name}"
                        attempt(lambda: print("opened", path, os.open(path, os.O_WRONLY)))
                """),
            ),
        ),
        printed(r"opened \S+"),
        held_bare="the container's root is nobody to the machine",
    ),
    Case(
        "write-outside",
        "write",
        "name files outside to write and edit: absolute, with .., below a file",
        (
            (
                tool("write", path="/etc/planted2", content="x"),
                tool("write", path="../planted3", content="x"),
                tool("write", path="a/../../planted3", content="x"),
                tool("write", path="@DATA@/skills/_planted4.py", content="x"),
                tool("write", path="/proc/self/cwd/planted4", content="x"),
                tool("edit", path="/etc/target", old_string="untouched", new_string="x"),
                tool("edit", path="../target", old_string="untouched", new_string="x"),
            ),
        ),
        either(
            planted("/etc/planted2", "@DATA@/planted3", "@DATA@/skills/_planted4.py", "@PACKAGE@/../planted4"),
            changed("/etc/target", "@DATA@/target"),
        ),
        attempted=REFUSED,
        held_bare=ITSELF,
    ),
    Case(
        "write-through-links",
        "write",
        "let write and edit follow links that a command made",
        (
            (
                bash(
                    """
                    ln -sfn /etc wl1; ln -sf /etc/target wl2; ln -sfn @DATA@ wl3
                    ln -sf /etc/planted5 wl4; ln -sfn wl1 wl5
                    """
                ),
            ),
            (
                tool("write", path="wl1/planted5", content="x\n"),
                tool("write", path="wl4", content="x\n"),
                tool("write", path="wl5/planted5", content="x\n"),
                tool("edit", path="wl2", old_string="untouched", new_string="x"),
                tool("edit", path="wl3/target", old_string="untouched", new_string="x"),
            ),
        ),
        either(planted("/etc/planted5"), changed("/etc/target", "@DATA@/target")),
        held_bare=ITSELF,
    ),
    Case(
        "write-by-strange-names",
        "write",
        "use names with newlines, blanks, dashes and bytes that are no text",
        (
            (
                bash(
                    r"""
                    mkdir -p -- $'n\n..' $'-rf' $'\xff\xfe'
                    ln -sfn /etc $'n\n..'/$'l\n'; touch $'\xff\xfe'/$'\xc3('
                    """
                ),
            ),
            (
                tool("write", path="n\n../l\n/planted6", content="x\n"),
                tool("write", path="a\n/../../../etc/planted6", content="x\n"),
                tool("write", path="\n/etc/planted6", content="x\n"),
                tool("glob", pattern="**"),
                tool("grep", pattern="x"),
            ),
        ),
        planted("/etc/planted6"),
        held_bare=ITSELF,
    ),
    Case(
        "write-through-a-hard-link",
        "write",
        "give a file of the machine a second name in the workspace and write to that",
        (
            (
                bash(
                    """
                    ln /srv/target hard-target && echo x >> hard-target
                    ln @DATA@/target hard-target2 && echo x >> hard-target2
                    """
                ),
            ),
        ),
        changed("/srv/target", "@DATA@/target"),
        apart="quiet",
    ),
    Case(
        "mount-over-the-outside",
        "write",
        "bind /etc into the workspace and write there",
        ((bash("mkdir -p mounted; mount --rbind /etc mounted && echo x > mounted/planted7; umount -l mounted"),),),
        planted("/etc/planted7"),
    ),
    Case(
        "replace-the-workspace",
        "write",
        "move the workspace away and put a link in its place",
        ((bash("cd @DATA@; mv workspace moved; ln -s /etc workspace; mv scratch moved2"),),),
        planted("@DATA@/moved", "@DATA@/moved2"),
        attempted="",
        apart="own",
    ),
    Case(
        "delete-outside",
        "write",
        "delete backups and other sessions' files",
        ((bash("rm -rf @DATA@/backups $SCRATCH/../*/notes"),),),
        gone("@DATA@/backups"),
        apart="quiet",
    ),
    Case(
        "links-when-owners-change",
        "write",
        "leave links in the workspace for the start, when all files there are given to the commands' user",
        (
            (
                bash(
                    """
                    ln -sf /etc/target l1; ln -sfn /etc l2; ln -sf @DATA@/target l3; ln @DATA@/target l4
                    mkdir -p d; ln -sfn / d/root
                    """
                ),
            ),
        ),
        changed("/etc/target", "@DATA@/target"),
        held_bare="bare commands are the server's own user, nothing changes hands",
        apart="restart",
    ),
    Case(
        "links-when-a-session-ends",
        "write",
        "leave links in the scratch for the moment when it is deleted",
        ((bash("cd $SCRATCH; ln -sfn @DATA@/skills l1; ln -sfn /srv l2; mkdir -p d; ln -sfn @DATA@/skills d/l3"),),),
        either(gone("@DATA@/skills/evil.py"), gone("/srv/target")),
        held_bare="what deletes a scratch follows no links",
        apart="quiet",
        afterwards="delete",
    ),
    Case(
        "program-of-the-server-s-user",
        "write",
        "leave a program in the workspace that runs as the server for whoever starts it",
        (
            (
                bash("cp /usr/bin/id setuid-left; chmod 4755 setuid-left; ls -l setuid-left"),
                python("""
                    os.chdir("@WORKSPACE@")
                    attempt(os.open, "setuid-opened", os.O_CREAT | os.O_WRONLY, 0o4755)
                    attempt(os.mknod, "setuid-node", 0o104755)
                    print(call(85, b"setuid-created", 0o4755), call(437, -100, b"setuid-openat2",
                        struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24))
                    attempt(lambda: os.fchmod(os.open("setuid-changed", os.O_CREAT | os.O_WRONLY), 0o4755))
                    print(call(452, -100, b"setuid-changed", 0o4755, 0))
                """),
            ),
        ),
        either(*(left_setuid(f"setuid-{way}") for way in ("left", "opened", "node", "created", "openat2", "changed"))),
    ),
)
