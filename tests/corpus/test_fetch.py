import json


def test_the_command_writes_shards_and_a_manifest(tmp_path, helpers, wheel_cache):
    result = helpers.run("fetch", "--spec", '{"source": "sample", "documents": 50}', "--out", tmp_path / "c")
    assert result.returncode == 0, result.stderr
    assert "50 documents" in result.stdout
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["manifest.json", "shard-00000.json.gz"]
    assert json.loads((tmp_path / "c" / "manifest.json").read_text())["documents"] == 50


def test_bad_specs_are_one_sentence(tmp_path, helpers):
    for spec, sentence in (
        ("{", "--spec: should be JSON"),
        ('{"source": "sample", "pages": 3}', "--spec: pages: unknown key"),
        ('{"source": "shards", "files": ["x"]}', "--spec: source: input should be 'sample' (got 'shards')"),
    ):
        result = helpers.run("fetch", "--spec", spec, "--out", tmp_path / "c")
        assert result.returncode == 1
        assert result.stderr.startswith(f"error: {sentence}"), result.stderr
        assert result.stderr.count("\n") == 1
