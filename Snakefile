# From a config to a report. Rules are in workflow/rules/, choices in config/, all logic in src/collapse/.
from snakemake.exceptions import WorkflowError

from collapse.config.base import ConfigError
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import plan
from collapse.pipeline.site import load_site

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

# The config as it is now: on one machine, an edit while jobs wait concerns the next start.
CONFIG = PLAN.snapshot()


include: "workflow/rules/common.smk"


rule all:
    default_target: True
    input:
        PLAN.everything,


rule initialization:
    input:
        PLAN.initialization,


# Snakemake has seen every job end: finished runs need no second copy any more.
onsuccess:
    from collapse.upkeep.gc import forget_finished

    forget_finished(PLAN)


include: "workflow/rules/corpus.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
