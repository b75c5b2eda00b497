"""The `fetch` stage: the sample corpus as C4-shaped shards."""

import argparse
from pathlib import Path

from pydantic import TypeAdapter

from collapse.config.corpus import CorpusConfig, SampleCorpus
from collapse.corpus import sample
from collapse.corpus.command import parse_spec
from collapse.errors import CollapseError, run_stage


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(prog="python -m collapse.corpus.fetch", description=__doc__)
    parser.add_argument("--spec", required=True, help="corpus section of the config, as JSON")
    parser.add_argument("--out", required=True, type=Path, help="folder for the shards and manifest.json")
    args = parser.parse_args()
    schema: TypeAdapter[CorpusConfig] = TypeAdapter(CorpusConfig)
    spec = parse_spec(schema, args.spec)
    if not isinstance(spec, SampleCorpus):
        raise CollapseError(
            f"only the sample corpus is fetched; corpus.source is {spec.source!r}, which is read as it is"
        )
    manifest = sample.write(spec, args.out)
    print(f"sample corpus: {manifest.documents:,} documents, {manifest.characters:,} characters in {args.out}")


if __name__ == "__main__":
    run_stage(main)
