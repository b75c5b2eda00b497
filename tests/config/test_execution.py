from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collapse.config.execution import ExecutionConfig
from collapse.config.root import load, parse


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64))
def test_processes_fit_the_sequences_of_a_step(nodes: int, per_node: int, sequences: int) -> None:
    execution = ExecutionConfig(micro_batch_size=1, processes=nodes * per_node, nodes=nodes)
    fitted = execution.fitted(sequences)
    assert fitted.processes <= min(execution.processes, sequences)
    assert fitted.processes_per_node <= per_node
    assert fitted.nodes in (1, nodes)
    assert fitted.processes_per_node * fitted.nodes == fitted.processes
    assert fitted.fitted(sequences) == fitted
    if sequences >= execution.processes:
        assert fitted == execution
    else:
        assert fitted.split(sequences) == (1, sequences // fitted.processes)
    if sequences <= per_node:
        assert (fitted.processes, fitted.nodes) == (
            min(execution.processes, sequences),
            1 if sequences < execution.processes else nodes,
        )
    assert ExecutionConfig.model_validate(fitted.canonical()) == fitted


def test_no_node_gets_more_processes_than_configured() -> None:
    execution = ExecutionConfig(micro_batch_size=1, processes=16, nodes=2)
    shapes = {count: (execution.fitted(count).processes, execution.fitted(count).nodes) for count in (1, 8, 9, 12, 16)}
    assert shapes == {1: (1, 1), 8: (8, 1), 9: (3, 1), 12: (12, 2), 16: (16, 2)}


def test_the_papers_config_can_use_several_processes_and_nodes() -> None:
    """One of its runs has one sequence per step."""
    config = load(Path(__file__).parents[2] / "config/paper.yaml").canonical()
    config["execution"] |= {"processes": 16, "nodes": 2}
    assert parse(config).execution.processes_per_node == 8
