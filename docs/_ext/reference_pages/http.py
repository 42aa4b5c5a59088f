"""Who may do what, and what is measured, from the tables and the collectors."""

from typing import cast

from reference_pages import docstrings
from reference_pages.markdown import code, page, table
from wharfinger.manager.access.permissions import ROOT_FIELDS, ROUTES, Rule
from wharfinger.manager.api.metrics import Metrics
from wharfinger.manager.figures import Figures, SchedulerFigures
from wharfinger.manager.storage.port import Storage

_OF_THE_PROCESS = ("python_", "process_")


def permissions() -> str:
    """The one table of permissions."""
    meanings = docstrings.of_fields(Rule)
    return page(
        "Permissions",
        "What a request must show. What is not in these tables is refused; tests compare them "
        "with the real routes and the real schema.",
        "## Rules",
        table(("rule", "the request must show"), [(code(r), meanings[r.name]) for r in Rule]),
        "## Plain HTTP",
        table(
            ("route", "rule"),
            [(code(f"{method} {path}"), code(rule)) for (method, path), rule in ROUTES.items()],
        ),
        "## GraphQL",
        table(
            ("field", "rule"), [(code(field), code(rule)) for field, rule in ROOT_FIELDS.items()]
        ),
    )


def metrics() -> str:
    """What `/metrics` tells."""
    registry = Metrics().registry
    Figures(cast("Storage", None), registry)
    SchedulerFigures(registry)
    families = sorted(registry.collect(), key=lambda family: family.name)
    return page(
        "Metrics",
        "At `GET /metrics`, in the Prometheus text format, for any user's token. Python's own "
        "metrics of the process come on top.",
        table(
            ("metric", "kind", "meaning"),
            [
                (code(family.name), family.type, family.documentation)
                for family in families
                if not family.name.startswith(_OF_THE_PROCESS)
            ],
        ),
    )
