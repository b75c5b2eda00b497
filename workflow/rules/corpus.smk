# Text: the sample corpus if the config asks for it, the tokenizer, the token store. The runs and the probes may read
# different text, under different ids.


rule corpus:
    output:
        "<results>/corpus/{corpus_id}/manifest.json",
    log:
        "<logs>/corpus/{corpus_id}.log",
    benchmark:
        "<benchmarks>/corpus/{corpus_id}.tsv"
    resources:
        **SITE.job,
        mem_mb=1000,
        runtime=SITE.minutes(60),
    params:
        spec=lambda wildcards: PLAN.corpus(wildcards.corpus_id),
        code=PLAN.code("corpus.sample"),
    shell:
        "collapse corpus --configfile {CONFIG:q} --corpus-id {wildcards.corpus_id} --log {log:q}"


rule tokenizer:
    input:
        lambda wildcards: PLAN.text(wildcards.tokens_id),
    output:
        "<results>/tokens/{tokens_id}/tokenizer.model",
    log:
        "<logs>/tokenizer/{tokens_id}.log",
    benchmark:
        "<benchmarks>/tokenizer/{tokens_id}.tsv"
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(240),
    params:
        spec=lambda wildcards: PLAN.data(wildcards.tokens_id),
        code=PLAN.code("corpus.tokenizer"),
    shell:
        "collapse tokenizer --configfile {CONFIG:q} --tokens-id {wildcards.tokens_id} --log {log:q}"


rule tokenize:
    input:
        lambda wildcards: PLAN.text(wildcards.tokens_id),
        "<results>/tokens/{tokens_id}/tokenizer.model",
    output:
        train="<results>/tokens/{tokens_id}/train.bin",
        validation="<results>/tokens/{tokens_id}/validation.bin",
        manifest="<results>/tokens/{tokens_id}/manifest.json",
    log:
        "<logs>/tokenize/{tokens_id}.log",
    benchmark:
        "<benchmarks>/tokenize/{tokens_id}.tsv"
    threads: 4
    resources:
        **SITE.job,
        mem_mb=2000,
        runtime=SITE.minutes(1440),
    params:
        spec=lambda wildcards: PLAN.data(wildcards.tokens_id),
        code=PLAN.code("corpus.tokenize"),
    shell:
        "collapse tokenize --configfile {CONFIG:q} --tokens-id {wildcards.tokens_id} --threads {threads} --log {log:q}"
