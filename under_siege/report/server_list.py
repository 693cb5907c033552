"""List the strategies, for people and for programs."""

import json
from collections.abc import Sequence

from common.server_contract import default_port, remedy, unmet
from under_siege.model.suite import Target


def catalogue_as_text(strategies: Sequence[Target]) -> str:
    width = max((len(strategy.name) for strategy in strategies), default=0)
    return "\n".join(f"{strategy.name:{width}}  {strategy.title}{_needs(strategy)}" for strategy in strategies)


def _needs(strategy: Target) -> str:
    lacking = unmet(strategy.requires)
    return f" ({lacking}: {remedy(strategy.requires)})" if lacking else ""


def catalogue_as_json(strategies: Sequence[Target]) -> str:
    entries = [
        {
            "number": strategy.number,
            "server": strategy.name,
            "title": strategy.title,
            "path": str(strategy.path),
            "port": default_port(strategy.name),
            "requires": strategy.requires or None,
            "jobs": strategy.takes_jobs,
            "lacking": unmet(strategy.requires) or None,
        }
        for strategy in strategies
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False)
