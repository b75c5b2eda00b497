# Figures of probes and theory share one rule: each is drawn from one dataset. Of the others, one rule a family. A figure's inputs are the runs that it shows, and no others: a run that is added redraws
# the figures that show it.


rule initialization_figure:
    input:
        data=lambda wildcards: PLAN.figure_data(wildcards.figure),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/initialization.rst",
            category="Initialization",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure="|".join(name for name, figure in PLAN.figures.items() if figure.data),
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(5),
        slots=1,
    params:
        style=PLAN.style,
        family=lambda wildcards: PLAN.figures[wildcards.figure].family,
        code=lambda wildcards: PLAN.code(f"figures.{PLAN.figures[wildcards.figure].family}"),
        data=lambda wildcards, input: Path(input.data).with_suffix(".zarr"),
        number=lambda wildcards: (
            f"--number {number}" if (number := PLAN.figures[wildcards.figure].number) is not None else ""
        ),
    shell:
        "python -m collapse.figures.{params.family} --style {params.style:q} --data {params.data:q} {params.number}"
        " --out {output.png:q} 2>&1 | tee -i {log:q}"


rule gradient_contribution:
    input:
        run=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "run"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/gradient_contribution.rst",
            category="Gradient contribution",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"fig\d\d_.*gradient_contribution",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.gradient_contribution"),
        run=lambda wildcards, input: Path(input.run[0]).parent,
        number=lambda wildcards: PLAN.figures[wildcards.figure].number,
    shell:
        "python -m collapse.figures.gradient_contribution --style {params.style:q} --analysis {params.analysis:q}"
        " --run {params.run:q} --number {params.number} --out {output.png:q} 2>&1 | tee -i {log:q}"


rule contraction:
    input:
        run=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "run"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/contraction.rst",
            category="Contraction",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"fig\d\d_.*contraction",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.contraction"),
        run=lambda wildcards, input: Path(input.run[0]).parent,
        number=lambda wildcards: PLAN.figures[wildcards.figure].number,
    shell:
        "python -m collapse.figures.contraction --style {params.style:q} --analysis {params.analysis:q}"
        " --run {params.run:q} --number {params.number} --out {output.png:q} 2>&1 | tee -i {log:q}"


rule gradient_norms:
    input:
        run=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "run"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/gradient_norms.rst",
            category="Gradient norms",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"fig\d\d_.*gradient_norms",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.gradient_norms"),
        run=lambda wildcards, input: Path(input.run[0]).parent,
        number=lambda wildcards: PLAN.figures[wildcards.figure].number,
    shell:
        "python -m collapse.figures.gradient_norms --style {params.style:q} --analysis {params.analysis:q}"
        " --run {params.run:q} --number {params.number} --out {output.png:q} 2>&1 | tee -i {log:q}"


rule frequency_loss:
    input:
        no_warmup=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "no-warmup"),
        warmup=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "warmup"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/frequency_loss.rst",
            category="Frequency loss",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"fig06_frequency_loss",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.frequency_loss"),
        no_warmup=lambda wildcards, input: [Path(manifest).parent for manifest in input.no_warmup],
        warmup=lambda wildcards, input: [Path(manifest).parent for manifest in input.warmup],
    shell:
        "python -m collapse.figures.frequency_loss --style {params.style:q} --analysis {params.analysis:q}"
        ""
        " --no-warmup {params.no_warmup:q} --warmup {params.warmup:q} --out {output.png:q} 2>&1 | tee -i {log:q}"


rule tsim_heatmap:
    input:
        run=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "run"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/tsim_heatmap.rst",
            category="Token similarity",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"tsim_heatmap_.+",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.tsim_heatmap"),
        run=lambda wildcards, input: Path(input.run[0]).parent,
    shell:
        "python -m collapse.figures.tsim_heatmap --style {params.style:q} --analysis {params.analysis:q}"
        " --run {params.run:q} --out {output.png:q} 2>&1 | tee -i {log:q}"


rule overview:
    input:
        runs=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "runs"),
        collapsing=lambda wildcards: PLAN.figure_inputs(wildcards.figure, "collapsing"),
    output:
        png=report(
            "<results>/figures/{figure}.png",
            caption="../report/overview.rst",
            category="Overview",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figures/{figure}.log",
    benchmark:
        "<benchmarks>/figures/{figure}.tsv"
    wildcard_constraints:
        figure=r"overview",
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(10),
        slots=1,
    params:
        style=PLAN.style,
        analysis=PLAN.analysis,
        code=PLAN.code("figures.overview"),
        runs=lambda wildcards, input: [Path(manifest).parent for manifest in input.runs],
        collapsing=lambda wildcards, input: Path(input.collapsing[0]).parent,
    shell:
        "python -m collapse.figures.overview --style {params.style:q} --analysis {params.analysis:q}"
        ""
        " --runs {params.runs:q} --collapsing {params.collapsing:q} --out {output.png:q} 2>&1 | tee -i {log:q}"
