"""Which bus the settings ask for, and what is refused."""

import pytest
from pydantic import ValidationError

from wharfinger.domain.errors import InvalidRequest
from wharfinger.manager.bus.memory import MemoryBus
from wharfinger.manager.bus.redis import RedisBus
from wharfinger.run.bus import open_bus
from wharfinger.run.settings import ManagerSettings


@pytest.mark.parametrize("url", [None, ""])
async def test_without_redis_it_stays_within_the_process(url: str | None) -> None:
    async with open_bus(ManagerSettings.model_validate({"redis_url": url})) as opened:
        assert isinstance(opened.bus, MemoryBus)
        assert opened.outstanding is None


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_a_redis_that_is_away_is_no_obstacle(scheme: str) -> None:
    settings = ManagerSettings.model_validate({"redis_url": f"{scheme}://:pw@127.0.0.1:1/0"})
    async with open_bus(settings) as opened:
        assert isinstance(opened.bus, RedisBus)
        assert opened.outstanding is not None


def test_the_url_is_a_secret_and_of_a_kind_that_is_known() -> None:
    with pytest.raises(ValidationError) as refused:
        ManagerSettings.model_validate({"redis_url": "http://:hunter2@host"})
    (problem,) = refused.value.errors()
    assert "redis://" in problem["msg"]
    assert "hunter2" not in problem["msg"]
    assert "hunter2" not in repr(
        ManagerSettings.model_validate({"redis_url": "redis://:hunter2@h"})
    )


@pytest.mark.parametrize("url", ["redis://:hunter2@host:port", "redis://:hunter2@host?odd=1"])
async def test_a_url_that_cannot_be_one_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        async with open_bus(ManagerSettings.model_validate({"redis_url": url})):
            pass
    assert "hunter2" not in str(refused.value)
