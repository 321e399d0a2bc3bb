"""Places of connections: so many at once, in the order in which they were asked for."""

import asyncio

from mooring.http.client_places import Places


async def test_as_many_as_there_are_can_be_had_at_once() -> None:
    places = Places(2)
    assert [places.take_now() for _ in range(3)] == [True, True, False]
    places.give_back()
    assert places.take_now()


async def test_whoever_waits_is_served_in_order_and_before_others() -> None:
    places = Places(1)
    await places.take()
    served: list[int] = []

    async def wait(number: int) -> None:
        await places.take()
        served.append(number)

    waiting = [asyncio.ensure_future(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert places.waiting == 3
    for number in range(3):
        places.give_back()
        assert not places.take_now()  # it is the next one's already
        await waiting[number]
    assert served == [0, 1, 2]
    places.give_back()
    assert places.take_now()


async def test_one_who_waits_no_longer_takes_no_place() -> None:
    places = Places(1)
    await places.take()
    first, second = (asyncio.ensure_future(places.take()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()  # and before it hears of that:
    places.give_back()
    await second
    assert first.cancelled() or (await asyncio.gather(first, return_exceptions=True))
    assert places.waiting == 0
    places.give_back()
    assert places.take_now()


async def test_a_place_that_comes_with_the_end_of_waiting_is_given_back() -> None:
    places = Places(1)
    await places.take()
    waiting = asyncio.ensure_future(places.take())
    await asyncio.sleep(0)
    places.give_back()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert places.take_now()


async def test_one_who_is_cancelled_is_not_counted() -> None:
    places = Places(1)
    await places.take()
    waiting = asyncio.ensure_future(places.take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert places.waiting == 0
