"""Other replicas that have, or had, a session: where one is, and whether it has let go in peace."""

from mooring.replicas.forwarding import Forwarding
from mooring.replicas.membership import Membership
from mooring.replicas.records import Replica
from mooring.replicas.shared_store import SharedStore
from mooring.replicas.store_errors import StoreUnavailable

__all__ = ["Owners"]


class Owners:
    """As far as Redis, and they themselves, tell of them."""

    def __init__(self, store: SharedStore, membership: Membership, forwarding: Forwarding) -> None:
        self._store = store
        self._membership = membership
        self._forwarding = forwarding

    async def alive(self, owner: str) -> Replica | None:
        """Where an owner is that may still act; None: its sessions are anybody's. Raises StoreUnavailable."""
        replica = await self._membership.address_of(owner)
        if not await self._membership.may_take_from(owner):
            if replica is None:  # it lives, and says so again before long
                raise StoreUnavailable("it does not know where the replica is that has the session")
            return replica
        # Redis has no lease of it. But it may go on with one that all others have promised it.
        if replica is not None and await self._forwarding.holds(replica, owner):
            return replica
        return None

    async def was_released(self, id: str, fence: int, asked: Replica) -> bool:
        """Has whom we asked let go of it in peace? Then it had no call of ours. Without a lease, who knows?

        Of this fence, and as the last change of hands: it may have had the session again when we asked, also
        under another name.
        """
        if not self._membership.holds():
            return False
        try:
            place = await self._store.find(id)
            if place is None or place.released != fence or place.fence > fence + 1:
                return False
            heir = await self._membership.address_of(place.owner) if place.owner else None
        except StoreUnavailable:
            return False  # not known, so it may have been done
        is_elsewhere = heir is not None and heir.address != asked.address
        return self._membership.holds() and (is_elsewhere or not place.owner)
