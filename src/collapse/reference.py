"""Generated pages: the config's reference and schema, and the recorded quantities.

`collapse docs` writes them; a test fails when they no longer match the code.
"""

import json
from collections.abc import Iterator
from typing import Any

from collapse.config.root import Config
from collapse.recording.statistics import METRICS

_CONFIG = """\
# The config

<!-- Generated from src/collapse/config by `collapse docs`; edit the docstrings there. -->

A config is one YAML file. `config.yaml` is the default: 24-layer decoders on a small corpus, for two cores and some
minutes. `paper.yaml` is the paper's scale. Each is complete in itself and has its own folder, `results/<name>/`.

    make results CONFIG=config/paper.yaml          # another config, instead of the default
    snakemake --config name=trial                  # the default with one key changed
    snakemake --config 'figures={dpi: 300}'        # or a key of a section

- Unknown keys, wrong types and impossible values stop the pipeline before anything runs. The error lists all of them.
- The notation of a number does not matter: `6e-4`, `6.0e-4` and `0.0006` are the same learning rate and the same run.
- A run's identity is everything in `corpus`, `tokens`, `model`, `training` and `record`, with the values of the grid
  filled in. If you change one of these, the affected runs are trained under a new name. The old ones stay on disk until
  `collapse gc --remove`.
- `execution` is not part of the identity: changing it reruns nothing. Changing `analysis` or `figures` repeats the
  evaluation of the runs, but no training. Changing `probe` or `monte_carlo` repeats the measurements at initialization
  that depend on the changed keys.
- Editors can use `schema.json` beside this page. For the YAML language server, the first line of a config is
  `# yaml-language-server: $schema=schema.json`.

`figures.roles` decides which run plays which role in the figures. For a role that is left out, a rule chooses among the
Post-Norm runs with warmup on the stream: the run with the lowest learning rate is the stable run, the next one is the
collapsing run, the same run with another seed is its repetition, and the runs with the next three higher learning rates
(or fewer) are the ablations.
"""


_KEYWORDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def _standard(node: Any) -> Any:
    """A schema with the standard names of bounds; pydantic keeps its own names for them behind a validator."""
    if isinstance(node, list):
        return [_standard(part) for part in node]
    if isinstance(node, dict):
        return {
            _KEYWORDS.get(key, key) if isinstance(value, int | float) else key: _standard(value)
            for key, value in node.items()
        }
    return node


def _document() -> dict[str, Any]:
    document: dict[str, Any] = _standard(Config.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


def config_schema() -> str:
    """The JSON schema of a config, as text."""
    return json.dumps(_document(), indent=2, ensure_ascii=False) + "\n"


_BOUNDS = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
_NULL = {"type": "null"}
_LENGTHS = {"minItems": "of at least", "maxItems": "of at most"}


class _Page:
    """Walks the schema section by section; explains a section that occurs twice only at its first occurrence."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.root = document
        self.definitions = document["$defs"]
        self.explained: dict[str, str] = {}

    def sections_of(self, node: dict[str, Any]) -> list[str]:
        """Names of the definitions that a node refers to."""
        if "$ref" in node:
            return [node["$ref"].rpartition("/")[2]]
        return [name for part in node.get("oneOf", node.get("anyOf", [])) for name in self.sections_of(part)]

    def kind(self, key: str, node: dict[str, Any]) -> str:
        """A node's type and constraints in words."""
        if names := self.sections_of(node):
            first = self.explained.setdefault(names[0], key)
            return "mapping, see below" if first == key else f"mapping, as `{first}`"
        if "anyOf" in node:
            kinds = [self.kind(key, part) for part in node["anyOf"] if part != _NULL]
            return " or ".join(kinds)
        if "enum" in node or "const" in node:
            return " or ".join(f"`{value}`" for value in node.get("enum", [node.get("const")]))
        if node["type"] == "array":
            if "prefixItems" in node:
                return f"list of {len(node['prefixItems'])}: {self.kind(key, node['prefixItems'][0])}"
            limits = [f"{words} {node[name]}" for name, words in _LENGTHS.items() if name in node]
            return f"{' '.join(['list', *limits])}: {self.kind(f'{key}[]', node['items'])}"
        text = str(node["type"])
        if bounds := [f"{sign} {node[name]:g}" for name, sign in _BOUNDS.items() if name in node]:
            text += f" {', '.join(bounds)}"
        if "minLength" in node:
            text += ", not empty"
        return text + (f" matching `{node['pattern']}`" if "pattern" in node else "")

    def row(self, key: str, node: dict[str, Any], required: bool) -> str:
        """One line of a section's table."""
        if required:
            default = "required"
        else:
            default = f"`{json.dumps(node['default'])}`" if "default" in node else "its defaults"
        description = node.get("description") or (
            self.definitions[self.sections_of(node)[0]]["description"]
            if self.sections_of(node)
            else "Selects the kind."
        )
        cells = (f"`{key.rpartition('.')[2]}`", self.kind(key, node), default, " ".join(description.split()))
        return " ".join(["|", *(cell.replace("|", r"\|") + " |" for cell in cells)])

    def section(self, key: str, name: str, label: str = "") -> Iterator[str]:
        """Heading, purpose and table of a section, followed by the sections inside it."""
        definition = self.definitions[name] if name else self.root
        yield f"\n## {f'`{key}`' if key else 'Top level'}{label}\n\n{definition['description']}\n"
        yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
        required = definition.get("required", [])
        children = [
            (f"{key}.{child}" if key else child, child, node) for child, node in definition["properties"].items()
        ]
        for path, child, node in children:
            yield self.row(path, node, child in required)
        for path, _, node in children:
            yield from self.inside(path, node)

    def inside(self, key: str, node: dict[str, Any]) -> Iterator[str]:
        """The sections that a key holds, if they have not been explained yet."""
        for part in [node, *node.get("anyOf", [])]:
            if "items" in part:
                yield from self.inside(f"{key}[]", part["items"])
        names = self.sections_of(node)
        if names and self.explained.get(names[0]) == key:
            tag = node.get("discriminator", {}).get("propertyName")
            for name in names:
                constant = self.definitions[name]["properties"][tag]["const"] if tag else ""
                yield from self.section(key, name, f" with `{tag}: {constant}`" if tag else "")


def config_page() -> str:
    """The reference page, in Markdown: every key with its type, default, constraints and meaning."""
    lines = _Page(_document()).section("", "")
    return _CONFIG + "\n".join(lines) + "\n"


_METRICS = """\
# Recorded quantities

<!-- Generated from src/collapse/recording/statistics.py by `collapse docs`. -->

Variables of a run's store, `results/<name>/runs/<run_id>/metrics.zarr`. `step` is the optimizer step s, counted from
0: the state after s updates, as its own forward and backward pass sees it. `layer` runs from 1 to L, `sublayer` is
`attention` (k = 1) or `ffn` (k = 2). X_k is the input of a sublayer, Y_k its output with the residual added;
gradients are of the mean loss of the whole batch, before clipping. Forward quantities are means over the tokens of a
sequence, and then over the batch's sequences. NaN means that a quantity was not measured. Theorems and figures are
the paper's.

| variable | dims | meaning | units | defined in |
| --- | --- | --- | --- | --- |
"""


def metrics_page() -> str:
    """The page, in Markdown: every metric with its dimensions, meaning, units and origin."""
    rows = []
    for metric in METRICS:
        meaning = metric.long_name.replace("|", r"\|")
        cells = (f"`{metric.name}`", ", ".join(metric.dims) or "none", meaning, metric.units, metric.origin)
        rows.append(f"| {' | '.join(cells)} |\n")
    return _METRICS + "".join(rows)


def generated() -> dict[str, str]:
    """Text of every generated file, by its path in the project."""
    return {"config/README.md": config_page(), "config/schema.json": config_schema(), "docs/metrics.md": metrics_page()}
