# Text: the sample corpus where the config asks for it, the tokenizer, the token store.


rule fetch_corpus:
    output:
        manifest="<corpus>/manifest.json",
    log:
        "<logs>/fetch_corpus.log",
    benchmark:
        "<benchmarks>/fetch_corpus.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=1000,
    params:
        spec=PLAN.corpus,
        code=PLAN.code("corpus.fetch"),
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m collapse.corpus.fetch --spec {params.spec:q} --out {params.out:q} 2>&1 | tee -i {log:q}"


rule tokenizer:
    input:
        corpus="<corpus>/manifest.json" if PLAN.samples_corpus else [],
        text=PLAN.local_text,
    output:
        model="<tokens>/tokenizer.model",
    log:
        "<logs>/tokenizer.log",
    benchmark:
        "<benchmarks>/tokenizer.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=2000,
    params:
        spec=PLAN.data,
        code=PLAN.code("corpus.tokenizer"),
        corpus=lambda wildcards, input: (f"--corpus {Path(input.corpus).parent}" if input.corpus else ""),
    shell:
        "python -m collapse.corpus.tokenizer --spec {params.spec:q} {params.corpus} --out {output.model:q}"
        " 2>&1 | tee -i {log:q}"


rule tokenize:
    input:
        corpus="<corpus>/manifest.json" if PLAN.samples_corpus else [],
        text=PLAN.local_text,
        tokenizer="<tokens>/tokenizer.model",
    output:
        train="<tokens>/train.bin",
        validation="<tokens>/validation.bin",
        manifest="<tokens>/manifest.json",
    log:
        "<logs>/tokenize.log",
    benchmark:
        "<benchmarks>/tokenize.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=2000,
    params:
        spec=PLAN.data,
        code=PLAN.code("corpus.tokenize"),
        corpus=lambda wildcards, input: (f"--corpus {Path(input.corpus).parent}" if input.corpus else ""),
        out=subpath(output.manifest, parent=True),
    shell:
        "python -m collapse.corpus.tokenize --spec {params.spec:q} {params.corpus} --tokenizer {input.tokenizer:q}"
        " --out {params.out:q} 2>&1 | tee -i {log:q}"
