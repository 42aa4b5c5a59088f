"""What can be wrong with the database itself. Drivers' errors are translated once, by the adapters.

What a function raises of its own passes through as it is. So does a driver's error that tells of a
defect in our SQL: it is for the log, not for a person.
"""

from sqlalchemy.exc import IntegrityError

from wharfinger.domain.errors import Conflict, InvalidRequest, WharfingerError


class StorageUnavailable(WharfingerError):
    """The database cannot be used at the moment."""


class OutcomeUnknown(StorageUnavailable):
    """The connection was lost during the commit: it may have happened or not."""


class StorageClosed(WharfingerError):
    """The storage was closed; nothing runs on it any more."""


class ConstraintViolated(Conflict):
    """A rule of the database does not allow this."""


class UnsupportedDatabase(InvalidRequest):
    """This is not the URL of a database that Wharfinger can use."""


class NewerDatabase(WharfingerError):
    """A newer version of Wharfinger has used this database."""


def constraint_violated(error: IntegrityError) -> ConstraintViolated:
    """The rule named as the database names it: PostgreSQL by name, SQLite by columns."""
    diagnosis = getattr(error.orig, "diag", None)
    rule = diagnosis.constraint_name if diagnosis is not None else str(error.orig)
    return ConstraintViolated(f"A rule of the database does not allow this: {rule}", rule=rule)
