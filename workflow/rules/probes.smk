# Measurements at initialization: no training. Probes over many seeds are cut into slices of seeds, a job each. What a
# stopped job has finished lies in its scratch folder, which is no output.


rule increments_slice:
    input:
        tokens="<probe_tokens>/manifest.json",
    output:
        data=directory("<results>/probes/slices/increments-{first}-{last}.zarr"),
        manifest="<results>/probes/slices/increments-{first}-{last}.json",
    log:
        "<logs>/probes/increments-{first}-{last}.log",
    benchmark:
        "<benchmarks>/probes/increments-{first}-{last}.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.config.execution.threads
    resources:
        **SITE.job,
        mem_mb=PLAN.memory_mb("increments"),
        runtime=SITE.minutes(720),
    params:
        spec=PLAN.probes["increments"],
        code=PLAN.code("probes.increments"),
        tokens=subpath(input.tokens, parent=True),
        scratch=lambda wildcards, output: PLAN.job_scratch("increments", wildcards.first, wildcards.last),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.probes.increments --spec {params.spec:q} --tokens {params.tokens:q}"
        " --seeds {wildcards.first} {wildcards.last} --code {params.code} --scratch {params.scratch:q}"
        " --out {output.data:q} 2>&1 | tee -i {log:q}"


rule increments:
    input:
        slices=PLAN.slice_manifests("increments"),
    output:
        data=directory("<results>/probes/increments.zarr"),
        manifest="<results>/probes/increments.json",
    log:
        "<logs>/probes/increments.log",
    benchmark:
        "<benchmarks>/probes/increments.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(20),
        slots=1,
    params:
        code=PLAN.code("probes.combine"),
        slices=lambda wildcards, input: [Path(manifest).with_suffix(".zarr") for manifest in input.slices],
    shell:
        "python -m collapse.probes.combine --slices {params.slices:q} --code {params.code} --out {output.data:q}"
        " 2>&1 | tee -i {log:q}"


rule attention_slice:
    input:
        tokens="<probe_tokens>/manifest.json",
    output:
        data=temp(directory("<results>/probes/slices/attention-{first}-{last}.zarr")),
        manifest=temp("<results>/probes/slices/attention-{first}-{last}.json"),
    log:
        "<logs>/probes/attention-{first}-{last}.log",
    benchmark:
        "<benchmarks>/probes/attention-{first}-{last}.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.config.execution.threads
    resources:
        **SITE.job,
        mem_mb=PLAN.memory_mb("attention"),
        runtime=SITE.minutes(720),
    params:
        spec=PLAN.probes["attention"],
        code=PLAN.code("probes.attention_sums"),
        tokens=subpath(input.tokens, parent=True),
        scratch=lambda wildcards, output: PLAN.job_scratch("attention", wildcards.first, wildcards.last),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.probes.attention_sums --spec {params.spec:q}"
        " --tokens {params.tokens:q} --seeds {wildcards.first} {wildcards.last} --code {params.code}"
        " --scratch {params.scratch:q} --out {output.data:q} 2>&1 | tee -i {log:q}"


rule attention:
    input:
        slices=PLAN.slice_manifests("attention"),
        data=[Path(manifest).with_suffix(".zarr") for manifest in PLAN.slice_manifests("attention")],
    output:
        data=directory("<results>/probes/attention.zarr"),
        manifest="<results>/probes/attention.json",
    log:
        "<logs>/probes/attention.log",
    benchmark:
        "<benchmarks>/probes/attention.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.config.execution.threads
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(30),
        slots=1,
    params:
        code=PLAN.code("probes.attention"),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.probes.attention --slices {input.data:q} --code {params.code}"
        " --out {output.data:q} 2>&1 | tee -i {log:q}"


rule approximations:
    input:
        tokens="<probe_tokens>/manifest.json",
    output:
        data=directory("<results>/probes/approximations.zarr"),
        manifest="<results>/probes/approximations.json",
    log:
        "<logs>/probes/approximations.log",
    benchmark:
        "<benchmarks>/probes/approximations.tsv"
    conda:
        "../../environment.yml"
    threads: PLAN.config.execution.threads
    resources:
        **SITE.job,
        mem_mb=PLAN.memory_mb("approximations"),
        runtime=SITE.minutes(720),
    params:
        spec=PLAN.probes["approximations"],
        code=PLAN.code("probes.approximations"),
        tokens=subpath(input.tokens, parent=True),
        scratch=lambda wildcards, output: PLAN.job_scratch("approximations"),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.probes.approximations --spec {params.spec:q}"
        " --tokens {params.tokens:q} --code {params.code} --scratch {params.scratch:q} --out {output.data:q}"
        " 2>&1 | tee -i {log:q}"


rule collapsed_states:
    output:
        data=directory("<results>/probes/collapsed_states.zarr"),
        manifest="<results>/probes/collapsed_states.json",
    log:
        "<logs>/probes/collapsed_states.log",
    benchmark:
        "<benchmarks>/probes/collapsed_states.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(30),
        slots=1,
    params:
        spec=PLAN.probes["collapsed_states"],
        code=PLAN.code("checks.collapsed_states"),
    shell:
        "OMP_NUM_THREADS={threads} python -m collapse.checks.collapsed_states --spec {params.spec:q} --code {params.code}"
        " --out {output.data:q} 2>&1 | tee -i {log:q}"
