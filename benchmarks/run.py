"""Gradient calls of all libraries on all workloads: `python -m benchmarks.run` from the repository's root."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, measure
from benchmarks.peers import PEERS, Peer, version
from benchmarks.workloads import WORKLOADS

LATEST = Path(__file__).parent / "results" / "latest.json"
BESIDE = ("scipy", "numba", "llvmlite", "jaxlib")  # libraries that others stand on


def peer_list(text: str) -> list[Peer]:
    """The peers of `a,b`, in the order of the table."""
    names = {name.strip() for name in text.split(",")}
    if unknown := names - {peer.name for peer in PEERS}:
        known = ", ".join(peer.name for peer in PEERS)
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(sorted(unknown))}; there are {known}")
    return [peer for peer in PEERS if peer.name in names]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--only", metavar="NAME", action="append", choices=names, help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    parser.add_argument("--json", metavar="PATH", type=Path, default=LATEST, help="default: %(default)s")
    parser.add_argument("--peers", metavar="A,B", type=peer_list, default=list(PEERS))
    return parser.parse_args(argv)


def load(peers: Sequence[Peer]) -> tuple[dict[str, Any], dict[str, str]]:
    """The libraries by name, and why the others are skipped."""
    libraries, skipped = {}, {}
    for peer in peers:
        try:
            libraries[peer.name] = peer.load()
        except ImportError as error:
            skipped[peer.name] = f"{error} (pip install {peer.pip_name})"
    return libraries, skipped


def versions_of(peers: Sequence[Peer]) -> dict[str, str]:
    """Versions of the libraries that ran and of what they stand on."""
    installed = [name for name in BESIDE if any(metadata.distributions(name=name))]
    return {peer.pip_name: version(peer) for peer in peers} | {
        name: metadata.version(name) for name in installed
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if any library was wrong anywhere."""
    options = arguments(argv)
    print(f"pinned: {pinning()}")
    libraries, skipped = load(options.peers)
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    peers = [peer for peer in options.peers if peer.name in libraries]
    effort = QUICK if options.quick else FULL
    rows = []
    for workload in WORKLOADS:
        if options.only is None or workload.name in options.only:
            print(f"{workload.name} ...", file=sys.stderr, flush=True)
            rows.append(measure(workload, libraries, peers, effort))
    versions = versions_of(peers)
    print("\nvalue and gradient, µs a call (median), NumPy in and out\n" + report.times(rows))
    print("\n".join(["", *report.notes(rows)]))
    print("\nfirst call, and start-up (trace and compile), ms\n" + report.first_calls(rows))
    print("\n".join(["", *report.machine(versions)]))
    content = report.document(rows, versions, skipped, effort)
    content["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
