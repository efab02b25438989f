"""The budgets of the host: what a call may begin with, and what calls have used.

Decisions are made in memory, by one process, so that no two calls take the same room; what they rest on is on disk
before a call begins. `reserve` holds the most that a call may use until `charge` says what it has used. A call begins
only while what was used and all that is reserved is below the limits, so that the last one to begin is the only one
that can exceed them. Where the limits are not reached but might be by calls under way, a call waits for these.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, delete, insert, select, update

from agent_common.clock import Clock

from ..access import Teams
from ..database import HostDatabase, budget_spending
from ..database import budgets as table
from ..errors import InvalidCall, NotFound, TooMany
from .account import Account, Crossing
from .limits import BudgetLimits, BudgetState
from .origin import CallOrigin, read_origin
from .reserves import HeldReserve, Reserve, ReserveLog, charge_left_reserves, delete_reserves
from .spending import Charge, add_charges, begin_spending, read_spending

log = structlog.get_logger(__name__)
WAIT_SECONDS = 60.0
"""How long a call waits for others that may use up the budget."""
_LIMITS = ("daily_usd", "monthly_usd", "daily_tokens", "monthly_tokens")


def _ignore(_crossing: Crossing) -> None:
    return


class Budgets:
    """All budgets. `open` it before calls are made; `close` it after the ledger."""

    def __init__(self, database: HostDatabase, teams: Teams, clock: Clock, wait_seconds: float = WAIT_SECONDS) -> None:
        self._database = database
        self._teams = teams
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._accounts: dict[str, Account] = {}
        self._reserves = ReserveLog(database)
        self._unwritten: deque[Charge] = deque()
        self._charged = asyncio.Event()
        self.lock = asyncio.Lock()
        """Held while rows of the ledger are written, and while a budget begins with what they say."""
        self.on_crossing: Callable[[Crossing], None] = _ignore
        """Called when 80 % and all of a limit are used."""

    async def open(self) -> None:
        """Settle what an earlier process has left, and read the budgets."""

        def read(connection: Connection) -> tuple[int, dict[str, BudgetLimits], Mapping[str, Any]]:
            left = charge_left_reserves(connection)
            rows = connection.execute(select(table)).mappings()
            found = {row["scope"]: BudgetLimits(**{name: row[name] for name in _LIMITS}) for row in rows}
            return left, found, read_spending(connection)

        left, found, spent = await self._database.run(read)
        if left:
            log.warning("interrupted_calls_charged", calls=left)
        for scope, limits in found.items():
            self._accounts[scope] = Account(scope, limits)
            self._accounts[scope].set_spent(spent.get(scope, {}))

    async def close(self) -> None:
        await self._reserves.close()

    # ---------------------------------------------------------------- for the operator

    def list(self) -> Sequence[BudgetState]:
        """Return all budgets, by scope."""
        now = self._clock.now_ms()
        return [account.state(now) for _, account in sorted(self._accounts.items())]

    def get(self, scope: str) -> BudgetState:
        """Return one budget. Raises NotFound."""
        if scope not in self._accounts:
            raise NotFound(f"{scope} has no budget; PUT one")
        return self._accounts[scope].state(self._clock.now_ms())

    async def put(self, scope: str, limits: BudgetLimits) -> tuple[BudgetState, bool]:
        """Set the limits of a scope. Returns the budget, and whether it is new: it then begins with what the scope has
        used today and this month."""
        columns = limits.model_dump()
        async with self.lock:
            account = self._accounts.get(scope)
            if account is not None:
                change = update(table).where(table.c.scope == scope).values(**columns)
                await self._database.run(lambda connection: connection.execute(change))
                account.limits = limits
            else:
                self._accounts[scope] = await self._begin(scope, limits, columns)
        self._wake_waiting()
        return self.get(scope), account is None

    async def delete(self, scope: str) -> None:
        """Remove a budget with what is known of its use. Raises NotFound."""
        async with self.lock:
            self.get(scope)

            def remove(connection: Connection) -> None:
                connection.execute(delete(table).where(table.c.scope == scope))
                connection.execute(delete(budget_spending).where(budget_spending.c.scope == scope))

            await self._database.run(remove)
            del self._accounts[scope]
        self._wake_waiting()

    async def _begin(self, scope: str, limits: BudgetLimits, columns: Mapping[str, Any]) -> Account:
        now = self._clock.now_ms()

        def begin(connection: Connection) -> Mapping[str, Any]:
            connection.execute(insert(table).values(scope=scope, created_at=now, **columns))
            return begin_spending(connection, scope, now)

        account = Account(scope, limits)
        account.set_spent(await self._database.run(begin))
        for charge in self._unwritten:  # recorded, and not among the rows yet
            if scope in charge.origin.scopes:
                account.charge(charge.amount, charge.began, now)
        return account

    # ---------------------------------------------------------------- for model calls

    async def origin(self, agent_id: str, headers: Mapping[str, str]) -> CallOrigin:
        """Return who makes a call. Raises InvalidCall."""
        return read_origin(agent_id, await self._teams.team_of(agent_id), headers)

    async def reserve(self, reserve: Reserve) -> HeldReserve | None:
        """Reserve the most that a call may use, on disk too. Returns None if no budget concerns it.

        Raises BudgetExhausted; InvalidCall if a budget in US dollars meets a model without a price; TooMany if calls
        under way may use the budget up and none of them ends in time.
        """
        concerned = await self._wait_until_allowed(reserve)
        if not concerned:
            return None
        held = HeldReserve(reserve, concerned)
        try:
            await self._reserves.add(reserve)
        except BaseException:
            held.release()
            self._reserves.remove(reserve)
            self._wake_waiting()
            raise
        return held

    def charge(self, charge: Charge, held: HeldReserve | None) -> None:
        """Count what a call has used in place of what was reserved. The ledger calls `write` for it later."""
        self._unwritten.append(charge)
        if held is not None:
            held.release()
        now = self._clock.now_ms()
        for account in self._concerned(charge.origin):
            for crossing in account.charge(charge.amount, charge.began, now):
                log.warning("budget_used", scope=crossing.scope, limit=crossing.limit, percent=crossing.percent)
                self.on_crossing(crossing)
        self._wake_waiting()

    def writer(self) -> Callable[[Connection, Sequence[Charge]], None]:
        """Return what writes charges in the ledger's transaction. Call this with the lock held."""
        known = frozenset(self._accounts)

        def write(connection: Connection, charges: Sequence[Charge]) -> None:
            add_charges(connection, charges, known)
            delete_reserves(connection, [one.reserve_id for one in charges if one.reserve_id is not None])

        return write

    def written(self, count: int) -> None:
        """Note that the ledger is done with the oldest charges."""
        for _ in range(count):
            self._unwritten.popleft()

    # ---------------------------------------------------------------- inside

    def _concerned(self, origin: CallOrigin) -> list[Account]:
        return [self._accounts[scope] for scope in origin.scopes if scope in self._accounts]

    async def _wait_until_allowed(self, reserve: Reserve) -> list[Account]:
        """Return the budgets that concern a call, once all of them have room for it."""
        deadline = self._clock.monotonic() + self._wait_seconds
        while True:
            now = self._clock.now_ms()
            concerned = self._concerned(reserve.origin)
            for account in concerned:
                account.check(now)
                _require_price(account, reserve)
            full = next((account for account in concerned if not account.allows_another(now)), None)
            if full is None:
                return concerned
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                    await self._charged.wait()
            except TimeoutError:
                text = f"calls under way may use up the budget of {full.scope}; try again when one of them has ended"
                raise TooMany(text, code="budget_reserved", headers={"retry-after": "5"}) from None

    def _wake_waiting(self) -> None:
        self._charged.set()
        self._charged = asyncio.Event()


def _require_price(account: Account, reserve: Reserve) -> None:
    """Refuse a model without a price where US dollars are limited: the limit could not be kept."""
    limit = next((one for one in account.limits.each() if one.in_usd), None)
    if limit is not None and reserve.cost_usd is None:
        budget = f"{account.scope} has a budget in US dollars ({limit.name})"
        why = f"{budget}, and the model {reserve.model!r} no known price; give it one in the catalog"
        raise InvalidCall(f"model: {why}", param="model", code="unpriced_model")
