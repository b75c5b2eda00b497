# Every figure of src/collapse/pipeline/gallery.py. Its inputs are only the runs or the dataset that it shows: a new run
# redraws only the figures that show it.


rule figure:
    input:
        lambda wildcards: PLAN.figure_inputs(wildcards.figure),
    output:
        png="<results>/figures/{figure}.png",
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    group:
        lambda wildcards: PLAN.figure_group(wildcards.figure)
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=lambda wildcards: SITE.minutes(5 if PLAN.figures[wildcards.figure].at_initialization else 10),
        slots=1,
    params:
        spec=lambda wildcards: PLAN.figure(wildcards.figure),
        code=lambda wildcards: PLAN.figure_code(wildcards.figure),
    shell:
        "collapse figure --configfile {CONFIG:q} --figure {wildcards.figure} --log {log:q}"
