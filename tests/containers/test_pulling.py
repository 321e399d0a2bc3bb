"""Images are brought by real engines from a registry, as was asked for."""

import pytest

from mooring.errors import UserError
from tests.containers.crew import Heard, Told, running, spec
from tests.containers.engines import RealEngine
from tests.containers.registry import FOREIGN, GOOD, registry
from tests.support import within


async def test_a_missing_image_is_pulled_once_with_progress_and_again_only_if_asked(
    real_engine: RealEngine,
) -> None:
    told = Told()
    with registry() as (where, asked):
        image = f"{where}/{GOOD}:1"
        async with within(100), running(real_engine, told) as runtime:
            instance = await runtime.start(spec("/bin/sh", "-c", "echo pulled; exec cat", image=image))
            heard = Heard()
            instance.attach(heard)
            assert await heard.line(0) == b"pulled"
            assert told.progress and told.progress[-1].layers >= 1
            asked.clear()
            await runtime.start(spec(image=image))
            await runtime.start(spec(image=image, pull="never"))
            await runtime.start(spec(image=image, pull="always"))
            assert not asked, "a newer one is looked for once, when a server begins"
        async with within(100), running(real_engine, told) as runtime:
            await runtime.start(spec(image=image, pull="always"))
            assert f"{GOOD}/manifests/1" in asked
            asked.clear()
            await runtime.start(spec(image=image, pull="always"))
            assert not asked
        real_engine.ask("DELETE", f"/images/{image}?force=1")


async def test_what_a_registry_does_not_have_and_what_is_for_other_machines_are_told_apart(
    real_engine: RealEngine,
) -> None:
    with registry() as (where, _):
        async with within(100), running(real_engine) as runtime:
            for image, code in (
                (f"{where}/{GOOD}:2", "image_missing"),
                (f"{where}/{FOREIGN}:1", "wrong_architecture"),
            ):
                with pytest.raises(UserError) as refused:
                    await runtime.start(spec(image=image))
                assert refused.value.code == code, refused.value.message
                assert image in refused.value.message
