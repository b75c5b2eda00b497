"""The `fetch` stage: the sample corpus as C4-shaped shards."""

import argparse
from pathlib import Path

from collapse.config.corpus import SampleCorpus
from collapse.config.option import parse_option
from collapse.corpus import sample
from collapse.errors import run_stage


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(prog="python -m collapse.corpus.fetch", description=__doc__)
    parser.add_argument("--spec", required=True, help="corpus section of the config, of source sample, as JSON")
    parser.add_argument("--out", required=True, type=Path, help="folder for the shards and manifest.json")
    args = parser.parse_args()
    spec = parse_option(SampleCorpus, "--spec", args.spec)
    manifest = sample.write(spec, args.out)
    print(f"sample corpus: {manifest.documents:,} documents, {manifest.characters:,} characters in {args.out}")


if __name__ == "__main__":
    run_stage(main)
