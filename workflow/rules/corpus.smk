# Text: the sample corpus where the config asks for it, the tokenizer, the token store. The runs' text and the probes'
# may differ; each has its id.


rule fetch_corpus:
    output:
        manifest="<results>/corpus/{corpus_id}/manifest.json",
    log:
        "<logs>/corpus/{corpus_id}.log",
    benchmark:
        "<benchmarks>/corpus/{corpus_id}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(60),
    params:
        spec=lambda wildcards: PLAN.corpus(wildcards.corpus_id),
        code=PLAN.code("corpus.fetch"),
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m collapse.corpus.fetch --spec {params.spec:q} --out {params.out:q} 2>&1 | tee -i {log:q}"


rule tokenizer:
    input:
        corpus=lambda wildcards: PLAN.fetched(wildcards.tokens_id) or [],
        text=lambda wildcards: PLAN.local_text(wildcards.tokens_id),
    output:
        model="<results>/tokens/{tokens_id}/tokenizer.model",
    log:
        "<logs>/tokenizer/{tokens_id}.log",
    benchmark:
        "<benchmarks>/tokenizer/{tokens_id}.tsv"
    conda:
        "../../environment.yml"
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(240),
    params:
        spec=lambda wildcards: PLAN.data(wildcards.tokens_id),
        code=PLAN.code("corpus.tokenizer"),
        corpus=lambda wildcards, input: (f"--corpus {Path(input.corpus).parent}" if input.corpus else ""),
    shell:
        "python -m collapse.corpus.tokenizer --spec {params.spec:q} {params.corpus} --out {output.model:q}"
        " 2>&1 | tee -i {log:q}"


rule tokenize:
    input:
        corpus=lambda wildcards: PLAN.fetched(wildcards.tokens_id) or [],
        text=lambda wildcards: PLAN.local_text(wildcards.tokens_id),
        tokenizer="<results>/tokens/{tokens_id}/tokenizer.model",
    output:
        train="<results>/tokens/{tokens_id}/train.bin",
        validation="<results>/tokens/{tokens_id}/validation.bin",
        manifest="<results>/tokens/{tokens_id}/manifest.json",
    log:
        "<logs>/tokenize/{tokens_id}.log",
    benchmark:
        "<benchmarks>/tokenize/{tokens_id}.tsv"
    conda:
        "../../environment.yml"
    threads: 4
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(1440),
    params:
        spec=lambda wildcards: PLAN.data(wildcards.tokens_id),
        code=PLAN.code("corpus.tokenize"),
        corpus=lambda wildcards, input: (f"--corpus {Path(input.corpus).parent}" if input.corpus else ""),
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m collapse.corpus.tokenize --spec {params.spec:q} {params.corpus} --tokenizer {input.tokenizer:q}"
        " --out {params.out:q} --threads {threads} 2>&1 | tee -i {log:q}"
