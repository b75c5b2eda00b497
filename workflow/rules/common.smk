# What all rules share: folders, names, and how a job starts.
import shlex

from snakemake.settings.enums import Quietness
from snakemake_interface_executor_plugins.settings import ExecMode


pathvars:
    results=str(PLAN.paths.root),
    logs=str(PLAN.paths.logs),
    benchmarks=str(PLAN.paths.benchmarks),


wildcard_constraints:
    run="[^/]+",  # an alternation of 1000 run ids would take longer to match than the rest of the workflow takes
    corpus_id="|".join(PLAN.corpora) or "none",
    tokens_id="|".join(PLAN.token_stores),
    figure="[^/]+",
    place="probes|theory",
    first=r"\d+",
    last=r"\d+",


# The profile of a cluster, recognized by its slots, sends jobs to other machines. So the cores of the login node must
# not limit a rule's threads. And since no job prints here, Snakemake itself must say which one failed.
SUBMITS = workflow.exec_mode == ExecMode.DEFAULT and "slots" in workflow.global_resources
ON_CLUSTER = SUBMITS or workflow.exec_mode == ExecMode.REMOTE
if SUBMITS:
    workflow.resource_settings.cores = workflow.global_resources["_cores"] = None
    workflow.output_settings.quiet.discard(Quietness.RULES)


# Every job runs the site's prelude first, and uses the Python that runs Snakemake. The prefix replaces Snakemake's own.
# Snakemake formats it, so braces are doubled.
shell.prefix(
    SITE.prelude.replace("{", "{{").replace("}", "}}")
    + f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH PYTHONUNBUFFERED=1; "
)
