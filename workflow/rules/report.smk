# The report: everything on one self-contained page.


rule report:
    input:
        "<results>/summary.csv",
        "<results>/claims.csv",
        expand("<results>/figures/{figure}.png", figure=PLAN.figures),
    output:
        "<results>/report.html",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(20),
    params:
        spec=PLAN.report,
        code=PLAN.report_code,
    shell:
        "collapse report --configfile {CONFIG:q} --log {log:q}"
