# From a config to a report. Rules are in workflow/rules/, choices in config/, all logic in src/collapse/.
import shlex

from snakemake.exceptions import WorkflowError
from snakemake.settings.enums import Quietness
from snakemake_interface_executor_plugins.settings import ExecMode

from collapse.config.base import ConfigError
from collapse.pipeline.site import load_site
from collapse.pipeline.plan import plan
from collapse.upkeep.gc import forget_finished

if not workflow.overwrite_configfiles:

    configfile: "config/config.yaml"


try:
    PLAN = plan(
        config,
        ", ".join(map(str, workflow.overwrite_configfiles or workflow.configfiles)),
    )
    SITE = load_site()
except ConfigError as error:
    raise WorkflowError(str(error)) from None


pathvars:
    results=str(PLAN.paths.root),
    logs=str(PLAN.paths.logs),
    benchmarks=str(PLAN.paths.benchmarks),
    tokens=str(PLAN.paths.tokens(PLAN.config.data.tokens_id)),
    probe_tokens=str(PLAN.paths.tokens(PLAN.config.probe_data.tokens_id)),


wildcard_constraints:
    run="[^/]+",  # all their names, with 1000 runs, would take longer to match than the rest of the workflow
    corpus_id="|".join(PLAN.corpora) or "none",
    tokens_id="|".join(PLAN.token_stores),
    first=r"\d+",
    last=r"\d+",


# profiles/default, which Snakemake prefers to any other profile, is for this machine. The profiles of clusters, known by
# their slots, send jobs to others: no rule's threads are cut down to a login node's, and as no job prints here, Snakemake
# itself must say which failed.
if workflow.exec_mode == ExecMode.DEFAULT and "slots" in workflow.global_resources:
    workflow.resource_settings.cores = workflow.global_resources["_cores"] = None
    workflow.output_settings.quiet.discard(Quietness.RULES)


# A job starts as the site wants it to. Stages run under the Python that runs Snakemake, and print line by line; a prefix
# takes the place of Snakemake's own, and is formatted.
shell.prefix(
    SITE.prelude.replace("{", "{{").replace("}", "}}")
    + f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH PYTHONUNBUFFERED=1; "
)


rule all:
    default_target: True
    input:
        PLAN.everything,


rule initialization:
    input:
        PLAN.initialization,


# Snakemake has seen every job end: finished runs need no second copy any more.
onsuccess:
    forget_finished(PLAN)


include: "workflow/rules/corpus.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/probes.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
