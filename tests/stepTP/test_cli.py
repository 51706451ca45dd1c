"""The commands' JSON, exit codes and one-line errors, which other programs rely on."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

from stepTP import cli, pipeline
from tests.stepTP.fakes import FakePool

DOUBLE = "in A_{4,6};out C_{4,6};\nL^{4,6}_{i,j}[C_{i,j}=A_{i,j}*2.0;]\n"
RACE = "in A_8;out C;\nP^8_i[C+=A_i;]\n"
COMMANDS = (
    "build", "status", "translate", "check", "run", "lower", "candidates", "apply", "verify", "replay", "stats", "show",
    "strategies", "sources", "new", "minimise",
)  # fmt: skip


class Steptp:
    """Runs commands in this process: exit code, standard output and error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str | Path, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.monkeypatch.setattr(sys, "argv", ["steptp", *map(str, arguments)])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
            sys.exit(0)
        shown = self.capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    def json(self, *arguments: str | Path, stdin: str | bytes = "", code: int = 0) -> Any:
        got, out, err = self(*arguments, "--json", stdin=stdin)
        assert got == code, (out, err)
        return json.loads(out)

    def fails(self, *arguments: str | Path, stdin: str = "") -> str:
        """The one line that says what is wrong with the input."""
        code, _, err = self(*arguments, stdin=stdin)
        assert code == 2, err
        assert err.startswith("steptp: ") and err.count("\n") == 1, err
        return err.removeprefix("steptp: ").rstrip()


@pytest.fixture
def steptp(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Steptp:
    return Steptp(monkeypatch, capsys)


@pytest.fixture
def double(tmp_path: Path) -> Path:
    file = tmp_path / "double.leir"
    file.write_text(DOUBLE)
    return file


def test_help_names_every_command(steptp: Steptp) -> None:
    code, out, _ = steptp("--help")
    assert code == 0
    assert all(f"\n  {command}" in out for command in COMMANDS)
    for command in COMMANDS:
        assert steptp(command, "--help")[0] == 0


def test_check_reports_every_file(steptp: Steptp, tmp_path: Path, double: Path) -> None:
    (tmp_path / "race.leir").write_text(RACE)
    (tmp_path / "text.leir").write_text("in A_4;out C_4;\nL^4_i[C_i=A_i]")
    files = [double, tmp_path / "race.leir", tmp_path / "text.leir"]
    reports = steptp.json("check", *files, code=1)
    assert [(Path(r["file"]), r["ok"]) for r in reports] == [(files[0], True), (files[1], False), (files[2], False)]
    assert set(reports[0]) == {"file", "ok", "diagnostics"}
    assert set(reports[1]["diagnostics"][0]) == {"code", "message", "line", "column"}
    assert [(d["code"], d["line"], d["column"]) for d in reports[2]["diagnostics"]] == [("parse-error", 2, 14)]
    code, out, _ = steptp("check", *files)
    assert code == 1 and f"{files[2]}:2:14: parse-error: found ']'" in out
    lines = out.splitlines()
    place = next(number for number, line in enumerate(lines) if "parse-error" in line)
    assert lines[place + 1][13] == "]" and lines[place + 2] == " " * 13 + "^"


def test_check_reads_standard_input(steptp: Steptp) -> None:
    assert steptp.json("check", "-", stdin=DOUBLE) == [{"file": "<stdin>", "ok": True, "diagnostics": []}]


def test_check_reports_what_is_no_text(steptp: Steptp, tmp_path: Path, double: Path) -> None:
    """The other files are checked all the same."""
    (tmp_path / "binary.leir").write_bytes(b"in A_4;\nout \xff")
    bad, good = steptp.json("check", tmp_path / "binary.leir", double, code=1)
    assert good["ok"] and [(d["code"], d["line"], d["column"]) for d in bad["diagnostics"]] == [("parse-error", 2, 5)]
    (report,) = steptp.json("check", "-", stdin=b"\x80", code=1)
    assert "not UTF-8 text (byte 0)" in report["diagnostics"][0]["message"]
    assert "not UTF-8 text (byte 12)" in steptp.fails("lower", tmp_path / "binary.leir")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chekc",), "No such command 'chekc'"),
        (("check",), "Missing argument 'FILE...': see steptp check --help"),
        (("check", "--jsno", "-"), "--jsno"),
        (("run", "-", "--engine", "gpu"), "'gpu' is not one of"),
        (("run", "-", "--seed", "-1"), "Invalid value for '--seed'"),
        (("apply", "-"), "Missing option '--strategy'"),
        (("sources", "show", "softmax", "--count", "1000000000"), "Invalid value for '--count'"),
        (("build", "a.yaml", "--workers", "0"), "Invalid value for '--workers'"),
        (("verify", ".", "--target", "tpu"), "'tpu' is not one of"),
    ],
)
def test_a_wrong_command_line_is_one_line(steptp: Steptp, arguments: tuple[str, ...], message: str) -> None:
    said = steptp.fails(*arguments)
    assert message in said and "--help" in said


def test_no_command_shows_the_help(steptp: Steptp) -> None:
    code, _, err = steptp()
    assert code == 2 and err.startswith("Usage: steptp") and "translate" in err


@pytest.mark.parametrize("arguments", [("run", "DOUBLE", "--seed", "1"), ("strategies", "list")])
def test_a_reader_that_has_had_enough(double: Path, arguments: tuple[str, ...]) -> None:
    """A closed pipe, as `head` leaves it, and a closed descriptor: an exit code, no traceback."""
    words = [str(double) if word == "DOUBLE" else word for word in arguments]
    command = [sys.executable, "-c", "from stepTP.cli import main; main()", *words]
    closed_pipe = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert closed_pipe.stdout is not None and closed_pipe.stderr is not None
    closed_pipe.stdout.close()
    assert (closed_pipe.stderr.read(), closed_pipe.wait()) == (b"", 1)
    closed_pipe.stderr.close()
    shell = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, check=False)
    assert (shell.stderr, shell.returncode) == (b"", 0)


def test_interruption_is_one_line(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, double: Path) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("leir.check.check_source", interrupted)
    code, out, err = steptp("check", double)
    assert (code, out) == (130, "") and err.startswith("steptp: stopped") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "stopped", "words"),
    [
        ("build", "stepTP.config.load_config", "the build goes on"),
        ("measure", "stepTP.measurements.measure_run", "the table of a run has what was timed"),
        ("minimise", "stepTP.minimise.search.Search.run", "the smallest so far"),
    ],
)
def test_what_an_interruption_leaves_is_said_of_the_command(
    steptp: Steptp, monkeypatch: pytest.MonkeyPatch, command: str, stopped: str, words: str, tmp_path: Path
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stopped, interrupted)
    if command == "measure":
        monkeypatch.setattr("stepTP.measurements.verified_as", lambda _, request: request)
    overflow = tmp_path / "overflow.leir"
    overflow.write_text("in A_{4};out C_{4};\nL^{4}_{i}[C_i=A_{i+1};]\n")
    asked = {"build": tmp_path / "c.yaml", "measure": tmp_path, "minimise": overflow}
    code, _, err = steptp(command, asked[command])
    last = err.strip().splitlines()[-1]
    assert code == 130 and last.startswith("steptp: stopped; ") and words in last
    assert ("build" in last) == (command == "build")


def test_a_file_needs_no_workers_to_be_measured(steptp: Steptp, double: Path) -> None:
    assert "--workers" in steptp.fails("measure", double, "--workers", "2")
    assert "--workers" in steptp.fails("measure", double, "--workers", "0")


def test_check_goes_on_after_a_bad_program(steptp: Steptp, double: Path) -> None:
    assert "no such file" in steptp.fails("check", double, "none.leir")


def test_run_executes(steptp: Steptp, tmp_path: Path, double: Path) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.savez(tmp_path / "in.npz", A=array)
    out = tmp_path / "out.npz"
    steptp("run", double, "--inputs", tmp_path / "in.npz", "--out", out)
    with np.load(out) as found:
        assert list(found) == ["C"] and found["C"].dtype == np.float32
        assert (found["C"] == array * 2).all()
    report = steptp.json("run", double, "--inputs", tmp_path / "in.npz")
    assert report["outputs"] == {"C": {"shape": [4, 6], "dtype": "float32"}}
    code, shown, _ = steptp("run", double, "--inputs", tmp_path / "in.npz")
    assert code == 0 and shown.splitlines()[1].split() == ["C", "float32", "[4,", "6]", "0", "46"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "A: the array is missing: the program reads A"),
        ({"A": np.zeros((4, 6), np.float32), "X": np.zeros(1)}, "X: no such input: the program reads A"),
        ({"A": np.zeros((4, 5), np.float32)}, "A: found float32 [4, 5], the program takes float32 [4, 6]"),
        ({"A": np.zeros((4, 6))}, "A: found float64 [4, 6], the program takes float32 [4, 6]"),
        ({"A": np.array([{}])}, "not an .npz of plain arrays: write it with numpy.savez"),
    ],
)
def test_run_refuses_other_inputs(
    steptp: Steptp, tmp_path: Path, double: Path, arrays: dict[str, Any], message: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert steptp.fails("run", double, "--inputs", tmp_path / "in.npz") == f"{tmp_path / 'in.npz'}: {message}"


def test_run_refuses_what_is_no_npz(steptp: Steptp, tmp_path: Path, double: Path) -> None:
    assert "no such file" in steptp.fails("run", double, "--inputs", tmp_path / "none.npz")
    single = io.BytesIO()
    np.save(single, np.zeros((4, 6), np.float32))
    for content in (b"", b"text", b"PK\x03\x04broken", single.getvalue()):
        (tmp_path / "in.npz").write_bytes(content)
        assert "not an .npz" in steptp.fails("run", double, "--inputs", tmp_path / "in.npz")


@pytest.mark.parametrize("engine", ["interpreter", "llvm"])
def test_run_refuses_inputs_beyond_a_tensor(steptp: Steptp, tmp_path: Path, engine: str) -> None:
    """Compiled code would read whatever lies there; a guard makes the same inputs good."""
    for at, guard, good in ((3, "", True), (4, "", False), (-1, "", False), (4, "(I_i<4)", True)):
        statement = f"L^8_i[C_i=0.0;{guard}[C_i=A_{{I_i}};]]" if guard else "L^8_i[C_i=A_{I_i};]"
        (tmp_path / "g.leir").write_text(f"in A_4,I^{{i32}}_8;out C_8;{statement}")
        np.savez(tmp_path / "in.npz", A=np.ones(4, np.float32), I=np.full(8, at, np.int32))
        command = ("run", tmp_path / "g.leir", "--engine", engine, "--inputs", tmp_path / "in.npz")
        if good:
            assert steptp(*command)[0] == 0
        else:
            said = steptp.fails(*command)
            assert said.startswith(str(tmp_path / "g.leir")) and f"is {at}, outside size 4" in said


def test_run_takes_values_of_bf16_alone(steptp: Steptp, tmp_path: Path) -> None:
    (tmp_path / "b.leir").write_text("in A^{bf16}_2;out C_2;L^2_i[C_i=A_i;]")
    np.savez(tmp_path / "in.npz", A=np.array([1.5, np.nan], np.float32))
    assert steptp("run", tmp_path / "b.leir", "--inputs", tmp_path / "in.npz")[0] == 0
    np.savez(tmp_path / "in.npz", A=np.array([1.5, 1.001], np.float32))
    assert "values that bf16 does not" in steptp.fails("run", tmp_path / "b.leir", "--inputs", tmp_path / "in.npz")


def test_run_draws_what_gathers_take(steptp: Steptp, tmp_path: Path) -> None:
    file = tmp_path / "gather.leir"
    file.write_text("in A_{2,4},I^{i32}_8;out C_{8,4};L^{8,4}_{i,j}[C_{i,j}=A_{I_i-3,j};]")
    for seed in range(3):
        assert steptp("run", file, "--seed", str(seed))[0] == 0  # an index outside is an error of the interpreter
    file.write_text("in A_{9,4},I^{i32}_8;out C_{8,4};L^{8,4}_{i,j}[C_{i,j}=A_{I_i*I_i,j};]")
    message = "no range of I is known that keeps every subscript within A: give arrays by --inputs"
    assert steptp.fails("run", file) == message


def test_run_refuses_a_place_before_it_works(
    steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, double: Path
) -> None:
    assert "is a folder: name a file in it" in steptp.fails("run", double, "--out", tmp_path)
    assert "/dev/null: is no regular file" in steptp.fails("run", double, "--out", "/dev/null")
    assert "there is no folder" in steptp.fails("run", double, "--out", tmp_path / "none" / "out.npz")
    monkeypatch.setattr(os, "access", lambda _file, _mode: False)  # root may write anywhere but on a disk that is read
    assert "may not be written: allow it" in steptp.fails("run", double, "--out", tmp_path / "out.npz")
    assert list(tmp_path.iterdir()) == [double]


@pytest.mark.parametrize("command", ["run", "lower", "candidates"])
def test_a_program_that_is_not_well_formed_is_bad_input(steptp: Steptp, command: str) -> None:
    message = steptp.fails(command, "-", stdin="in A_4;out C_4;\nL^4_i[C_i=Q_i;]\n")
    assert message.startswith("<stdin>:2:") and "Q" in message
    assert steptp.fails(command, "-", stdin="in A_4;out C_4;\nL^4_i[C_i=;]\n").startswith("<stdin>:2:11: found ';'")


def test_candidates_are_judged(steptp: Steptp, double: Path) -> None:
    found = steptp.json("candidates", double)
    assert all(set(c) == {"strategy", "args", "legal", "fact", "evidence", "state_id"} for c in found)
    assert {c["strategy"] for c in steptp.json("candidates", double, "--strategy", "loop_split")} == {"loop_split"}
    legal = steptp.json("candidates", double, "--legal")
    assert legal == [c for c in found if c["legal"]] and all(c["state_id"] for c in legal)


def test_candidates_are_of_the_grid_of_a_configuration(steptp: Steptp, double: Path, tmp_path: Path) -> None:
    config = tmp_path / "grid.yaml"
    config.write_text("name: grid\ngrid: {factors: [3]}\n")
    found = steptp.json("candidates", double, "--strategy", "loop_split", "--config", config)
    assert [c["args"]["factor"] for c in found] == [3, 3] and all(c["legal"] for c in found)
    config.write_text("name: grid\ngrid: {factors: [0]}\n")
    assert "grid.factors.0" in steptp.fails("candidates", double, "--config", config)


def test_apply_takes_a_step(steptp: Steptp, double: Path) -> None:
    step = ("--strategy", "loop_split", "--args", '{"path": [0], "factor": 2}')
    after = "in A_{4,6};out C_{4,6};\nL^{2,2,6}_{i,k,j}[C_{i*2+k,j}=A_{i*2+k,j}*2.0;]\n"
    assert steptp("apply", double, *step) == (0, after, "")
    report = steptp.json("apply", double, *step)
    assert (report["legal"], report["leir"]) == (True, after)
    assert all(fact["holds"] for fact in report["facts"])


def test_apply_refuses_with_the_fact(steptp: Steptp, double: Path) -> None:
    step = ("--strategy", "loop_split", "--args", '{"path": [0], "factor": 9}')
    code, out, err = steptp("apply", double, *step)
    assert (code, out) == (1, "") and "factor-is-below-the-extent" in err
    report = steptp.json("apply", double, *step, code=1)
    assert (report["legal"], report["leir"]) == (False, None)
    assert [fact["holds"] for fact in report["facts"]] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "loop_spilt"), "no strategy is called 'loop_spilt'"),
        (("--strategy", "loop_split", "--args", "{"), "--args: not JSON"),
        (("--strategy", "loop_split", "--args", "[" * 100_000), "--args: not JSON"),
        (("--strategy", "loop_split", "--args", "[]"), '"args" an object'),
        (("--strategy", "loop_split", "--args", '{"path": [0]}'), "arguments of loop_split: factor: Field required"),
        (("--strategy", "loop_split", "--args", '{"path": [0], "factor": "2"}'), "arguments of loop_split: factor"),
    ],
)
def test_apply_refuses_what_is_no_step(steptp: Steptp, double: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in steptp.fails("apply", double, *arguments)


def test_strategies(steptp: Steptp) -> None:
    found = steptp.json("strategies", "list")
    assert all(list(entry) == ["name", "level", "bit_exact", "summary"] for entry in found)
    assert {"name": "loop_split", "level": "operator"}.items() <= next(
        entry for entry in found if entry["name"] == "loop_split"
    ).items()
    assert steptp.json("strategies", "show", "loop_split")["args"].keys() == {"path", "factor"}
    assert "no strategy is called 'x'" in steptp.fails("strategies", "show", "x")


def test_sources(steptp: Steptp) -> None:
    assert len(steptp.json("sources", "list")) >= 12
    (program,) = steptp.json("sources", "show", "softmax")
    assert "class Model" in program["torch_code"]
    knobs = steptp.json("sources", "knobs", "softmax")
    assert knobs.keys() >= program["knobs"].keys()
    assert all(value in knobs[name] for name, value in program["knobs"].items())
    for command in ("show", "knobs"):
        assert "no family 'x'" in steptp.fails("sources", command, "x")


@pytest.fixture
def run_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Path, Path]:
    monkeypatch.setattr(pipeline, "Pool", FakePool)
    config = tmp_path / "tiny.yaml"
    config.write_text(
        "name: tiny\nsources: {families: [mlp, softmax], per_family: 2}\n"
        "walk: {depth: 2, breadth: 2, strategies: [loop_split]}\ntokens: false\n"
    )
    return config, tmp_path / "run"


def test_a_run_from_build_to_show(steptp: Steptp, run_folder: tuple[Path, Path]) -> None:
    config, folder = run_folder
    report = steptp.json("build", config, "--out", folder, "--workers", "2")
    assert (report["shards_made"], report["shards"], report["second_pass"]) == (1, 1, True)
    code, out, _ = steptp("build", config, "--out", folder)
    assert code == 0 and "nothing to do" in out
    assert steptp.json("status", folder)["done"]
    stats = steptp.json("stats", folder)
    assert stats["rows"] == report["rows"] and stats["strategies"]["loop_split"]["rows"] == report["rows"]["steps"]
    row = steptp.json("show", f"{folder}#1")
    assert steptp.json("show", f"{folder / 'steps.jsonl'}#{row['id']}") == row
    code, out, _ = steptp("show", f"{folder}#1")
    assert code == 0 and row["id"] in out
    assert "the rows are numbered 0 to" in steptp.fails("show", f"{folder}#99999")
    assert "no row has that id" in steptp.fails("show", f"{folder}#zz")
    (folder / "raw/00000.jsonl").unlink()
    status = steptp.json("status", folder, code=1)
    assert (status["done"], status["missing_or_damaged"]) == (False, ["raw/00000.jsonl"])
    steptp.json("build", config, "--out", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["outputs"]["refusals.jsonl"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert not steptp.json("status", folder, code=1)["done"]
    assert "run the same build again" in steptp.fails("stats", folder)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "manifest_version": 2}))
    assert "of another version" in steptp.fails("status", folder)


def test_rows_that_are_damaged(steptp: Steptp, run_folder: tuple[Path, Path]) -> None:
    config, folder = run_folder
    steptp("build", config, "--out", folder)
    file = folder / "steps.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    damaged = [
        lines[0] + lines[1].replace('"depth":1', '"depth":"x"'),
        lines[0] + lines[1][:50],
        lines[0] + "\udcff",
        "".join(lines[:-1]),  # whole rows, yet not all
    ]
    for text in damaged:
        file.write_text(text, errors="surrogateescape")
        for command in ("stats", "show", "replay", "verify"):
            assert steptp.fails(command, folder) == f"{file}: missing or damaged: run the same build again"
    for text, place in zip(damaged[:3], ("2: step.depth", "2: the line", "2: the line"), strict=True):
        file.write_text(text, errors="surrogateescape")
        assert steptp.fails("show", file).startswith(f"{file}:{place}: ")
    file.unlink()
    assert "missing or damaged" in steptp.fails("stats", folder)


def test_replay_judges_each_row_alone(steptp: Steptp, run_folder: tuple[Path, Path], tmp_path: Path) -> None:
    """A row that makes no sense is a failed row; the rows beside it are replayed all the same."""
    config, folder = run_folder
    steptp("build", config, "--out", folder)
    rows = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()[:3]]
    for row in rows:
        row["reasoning"] = ""
    rows[0]["leir_before"], rows[1]["answer"] = "x", "{"
    file = tmp_path / "steps.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    failed = steptp.json("replay", file, "--workers", "1", code=1)["failed"]
    found = [(rows.index(next(row for row in rows if row["id"] == f["id"])), f["message"]) for f in failed]
    assert [number for number, _ in found] == [0, 1, 1, 2]
    assert found[0][1].startswith("the program before does not parse: ")
    assert found[1][1] == "the answer is not the step and its program"
    assert {found[2][1], found[3][1]} == {"the reasoning gives another step"}


def test_verify_needs_a_target_that_is_here(
    steptp: Steptp, run_folder: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config, folder = run_folder
    steptp("build", config, "--out", folder)
    (row, *_) = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    file = tmp_path / "steps.jsonl"
    file.write_text(json.dumps({**row, "verification": []}))
    assert "targets: " in steptp.fails("verify", file)
    monkeypatch.setattr("stepTP.verify.devices.cuda_devices", lambda: ())
    assert "no CUDA device here: give --target llvm" in steptp.fails("verify", file, "--target", "cuda")


@pytest.mark.parametrize("command", ["status", "stats", "verify", "replay", "show"])
def test_folders_that_are_no_run(steptp: Steptp, tmp_path: Path, command: str) -> None:
    assert str(tmp_path) in steptp.fails(command, tmp_path)
    assert "none" in steptp.fails(command, tmp_path / "none")


def test_build_refuses_a_bad_configuration(steptp: Steptp, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: a\nwalk: {depht: 3}\n")
    assert "did you mean 'depth'" in steptp.fails("build", tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("name: a\nsources: {families: [mpl]}\n")
    said = steptp.fails("build", tmp_path / "c.yaml")
    assert said == f"{tmp_path / 'c.yaml'}: sources.families: no family 'mpl': did you mean 'mlp'?"
    assert "No such file" in steptp.fails("build", tmp_path / "none.yaml")
    assert not list(tmp_path.glob("runs"))


def test_cuda_needs_a_gpu(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A build without one would reject every source, and say that it is done."""
    monkeypatch.setattr(pipeline, "cuda_devices", lambda: ())
    (tmp_path / "c.yaml").write_text("name: a\nverify: {targets: [llvm, cuda]}\n")
    said = steptp.fails("build", tmp_path / "c.yaml", "--out", tmp_path / "run")
    assert "verify.targets: no CUDA device here" in said and not (tmp_path / "run").exists()


def test_build_refuses_a_folder_that_cannot_be(steptp: Steptp, run_folder: tuple[Path, Path]) -> None:
    config, folder = run_folder
    folder.write_text("a file")
    assert "is a file" in steptp.fails("build", config, "--out", folder)
    assert "Not a directory" in steptp.fails("build", config, "--out", folder / "below")


def test_translate_refuses_before_it_works(steptp: Steptp, tmp_path: Path) -> None:
    assert "no such file" in steptp.fails("translate", tmp_path / "none.py")
    assert "no .py file in the folder" in steptp.fails("translate", tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").write_text("")
    assert "a second file named m" in steptp.fails("translate", tmp_path, "--out", tmp_path / "out")
    assert "write NAME=VALUE" in steptp.fails("translate", tmp_path, "--set", "batch")
    assert "Invalid value for '--fit'" in steptp.fails("translate", tmp_path, "--fit", "2")


MODULE = """import torch
import torch.nn as nn

size = 4


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 3)

    def forward(self, x):
        return BODY


def get_inputs():
    return [torch.randn(size, 8)]


def get_init_inputs():
    return [8]
"""


def test_translate_reports_every_file(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One of each outcome; the file that kills its process costs itself only."""
    bodies = {
        "good": "torch.relu(self.layer(x))",
        "unsupported": "torch.fft.rfft(x).real",
        "constant": "self.layer(x) * 0.0",
        "deadly": "__import__('os').abort()",
    }
    (tmp_path / "in").mkdir()
    for name, body in bodies.items():
        (tmp_path / "in" / f"{name}.py").write_text(MODULE.replace("BODY", body))
    (tmp_path / "in" / "empty.py").write_text("size = 1\n")
    (tmp_path / "in" / "binary.py").write_bytes(b"\xff")
    (tmp_path / "importable.py").write_text(MODULE.replace("BODY", "-self.layer(x)").replace("Model", "Other"))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    code, text, _ = steptp("translate", "in", "importable:Other", "--out", out, "--set", "size=2", "--json")
    reports = {Path(report["file"]).stem: report for report in json.loads(text)}
    keys = [
        "file", "status", "cause", "leir", "names", "ops", "nests", "iterations", "max_abs_error", "constants",
        "translation_ms", "ms", "message",
    ]  # fmt: skip
    assert code == 1 and all(list(report) == keys for report in reports.values())
    statuses = {name: report["status"] for name, report in reports.items()}
    assert statuses == {
        "binary": "error",
        "importable:Other": "verified",
        "constant": "refused",
        "deadly": "error",
        "empty": "error",
        "good": "verified",
        "unsupported": "unsupported",
    }
    written = {"good.json", "good.leir", "good.py", "Other.json", "Other.leir", "Other.py"}  # none that is refused
    assert {file.name for file in out.iterdir()} == written
    assert (out / "good.leir").read_text() == reports["good"]["leir"]
    assert reports["good"]["leir"].startswith("in A_{2,8},")
    assert json.loads((out / "good.json").read_text())["A"] == "x"
    assert "\nsize = 2\n" in (out / "good.py").read_text()
    assert "defines no Model" in reports["empty"]["message"]


class OwnProcess:
    """Takes what the pool of `translate` takes, and runs it here: no worker has to import torch."""

    def __init__(self, *_limits: float | None) -> None: ...

    def submit(self, task: str, payload: dict[str, Any]) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(resolve_name(task)(payload))
        return done

    def __enter__(self) -> "OwnProcess":
        return self

    def __exit__(self, *_error: object) -> None: ...


def test_translate_takes_constants_and_a_size(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What changes a file before it is translated, and what cannot be changed."""
    monkeypatch.setattr("stepTP.verify.pool.Pool", OwnProcess)
    header = "import torch\nimport torch.nn.functional as F\n"
    dropping = MODULE.replace("BODY", "F.dropout(self.layer(x), 0.5, self.training)").replace(
        "import torch\n", header, 1
    )
    (tmp_path / "dropping.py").write_text(dropping)
    (tmp_path / "large.py").write_text(MODULE.replace("BODY", "self.layer(x)").replace("size = 4", "size = 40000"))
    fixed = MODULE.replace("BODY", "self.layer(x)").replace("size = 4\n", "").replace("size", "90000")
    (tmp_path / "fixed.py").write_text(fixed)
    (tmp_path / "missing.py").write_text("size = 64\n")
    (tmp_path / "wrong.py").write_text(MODULE.replace("BODY", "self.layr(x)").replace("size = 4", "size = 64"))
    dropping, fixed, large, missing, wrong = steptp.json(
        "translate", tmp_path, "--fit", "5000", "--workers", "1", code=1
    )
    assert large["status"] == "verified", large["message"]
    assert large["iterations"] <= 5000
    assert set(large["constants"]) == {"size"} and large["translation_ms"] > 0
    assert dropping["cause"] == "unsupported-op" and "aten.dropout.default" in dropping["message"]
    assert fixed["cause"] == "too-large" and "no constant can be smaller" in fixed["message"]
    assert missing["cause"] == wrong["cause"] == "source-error"  # they are wrong at any size
    assert "defines no Model" in missing["message"] and "'layr'" in wrong["message"]
    files = (tmp_path / "dropping.py", tmp_path / "large.py")
    code, table, _ = steptp("translate", *files, "--set", "size=3", "--no-check", "--eval", "--workers", "1")
    assert code == 0 and table.splitlines()[0].split() == [
        "file", "ops", "nests", "iterations", "status", "max", "error", "seconds", "message",
    ]  # fmt: skip
    assert table.count("translated") == table.count("size=3") == 2
