"""Which results can be compared at all."""

from collections.abc import Iterator

from common.errors import BadInputError
from common.model.case import axis
from common.model.record import Environment, Result

_OPTIONS = "--task, --users and --style"
SAME_MEMORY = 0.01  # kernels of the same machine differ by some pages in what they have left for others


def check_comparable(base: Result, new: Result, *, anyway: bool) -> None:
    """Raises BadInputError if the two answer different questions, or come from different machines.

    Args:
        anyway: other machines are compared all the same; other tasks or users never are.
    """
    for result, name in ((base, "first"), (new, "second")):
        if not result.records:
            raise BadInputError(f"these results can't be compared: nothing was measured in the {name} one")
    if other := [*_other_question(base, new)]:
        raise BadInputError(f"these results can't be compared: {_told(other)}; measure both with the same {_OPTIONS}")
    if (doubt := other_machine(base, new)) and not anyway:
        raise BadInputError(f"these results can't be compared: {doubt}; --anyway does it all the same")


def other_machine(base: Result, new: Result) -> str:
    """In what the machines differ; empty where they don't."""
    return _told([*_other_machine(base.environment, new.environment)])


def same_beats(base: Result, new: Result) -> bool:
    """Whether the metronomes of both did the same work with the same Python on the same kind of CPU."""
    one, other = base.environment, new.environment
    return bool(one.metronome) and (one.metronome, one.cpu_model) == (other.metronome, other.cpu_model)


def _told(differences: list[str]) -> str:
    return f"they were measured with different {', different '.join(differences)}" if differences else ""


def _other_question(base: Result, new: Result) -> Iterator[str]:
    loads = [{pair for one in result.records for pair in one.case.load} for result in (base, new)]
    for name in dict.fromkeys(name for pairs in loads for name, _ in sorted(pairs, key=str)):
        before, after = (sorted(value for axis, value in pairs if axis == name) for pairs in loads)
        if before != after:
            told = (", ".join(map(str, values)) or axis(name).usual for values in (before, after))
            yield f"{name.removesuffix('s')}s ({' and '.join(told)})"


def _other_machine(base: Environment, new: Environment) -> Iterator[str]:
    if base.cpu_model != new.cpu_model:
        yield f"CPUs ({base.cpu_model} and {new.cpu_model})"
    if base.usable_cpus != new.usable_cpus:
        yield f"numbers of CPUs ({base.usable_cpus} and {new.usable_cpus})"
    if abs(base.memory_bytes - new.memory_bytes) > SAME_MEMORY * max(base.memory_bytes, new.memory_bytes):
        yield f"sizes of memory ({base.memory_bytes / 1e9:.1f} GB and {new.memory_bytes / 1e9:.1f} GB)"
