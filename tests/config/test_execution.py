from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collapse.config.root import load, parse
from collapse.config.training import ExecutionConfig


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64))
def test_fitted_to_the_sequences_of_a_step(nodes: int, per_node: int, sequences: int) -> None:
    execution = ExecutionConfig(micro_batch_size=1, processes=nodes * per_node, nodes=nodes)
    fitted = execution.fitted(sequences)
    assert fitted.processes == min(execution.processes, sequences)
    assert fitted.nodes in (1, nodes)
    assert fitted.processes_per_node * fitted.nodes == fitted.processes
    assert fitted.fitted(sequences) == fitted
    if sequences >= execution.processes:
        assert fitted == execution
    assert ExecutionConfig.model_validate(fitted.canonical()) == fitted


def test_the_papers_config_may_be_spread_over_processes() -> None:
    """It has a run of one sequence a step."""
    config = load(Path(__file__).parents[2] / "config/paper.yaml").canonical()
    config["execution"] |= {"processes": 16, "nodes": 2}
    assert parse(config).execution.processes_per_node == 8
