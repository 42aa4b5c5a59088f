"""Settings, from the classes that read them."""

from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from reference_pages import docstrings
from reference_pages.markdown import code, page, table
from wharfinger.run.settings import ManagerSettings, RemoteAgentSettings, data_home


def settings() -> str:
    """Both programs' environment variables."""
    return page(
        "Settings",
        "The programs read these from the environment; an option of the command line wins.",
        "## Manager, and `wharfinger up`",
        _variables(ManagerSettings),
        "## Agent",
        _variables(RemoteAgentSettings),
        "## Commands",
        table(
            ("variable", "meaning"),
            [
                (code("WHARFINGER_URL"), "The manager's URL."),
                (code("WHARFINGER_TOKEN"), "The token to show it."),
            ],
        ),
        "Without them, commands read the file that `wharfinger up` wrote: "
        "`~/.config/wharfinger/client.json`.",
    )


def _variables(kind: type[BaseSettings]) -> str:
    prefix = kind.model_config["env_prefix"]
    meanings = docstrings.of_fields(kind)
    return table(
        ("variable", "default", "meaning"),
        [
            (code(f"{prefix}{name}".upper()), _default(field), meanings[name])
            for name, field in kind.model_fields.items()
        ],
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*needed*"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Path):
        return code(Path("~/.local/share/wharfinger") / value.relative_to(data_home()))
    return "" if value is None or isinstance(value, SecretStr) else code(value)
