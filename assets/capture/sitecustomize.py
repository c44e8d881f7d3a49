"""Waits in every Python process of a captured run until it imports torch. Lacuna puts it first on PYTHONPATH."""

import sys


class _TorchFinder:
    """Leaves finding to the other finders, and starts the recorder once torch is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader):
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                try:
                    import lacuna_capture

                    lacuna_capture.start(module)
                except Exception as error:
                    print(f"Lacuna: nothing is recorded in this process: {error!r}", file=sys.stderr)

        loader.exec_module = exec_module


def _load_shadowed():
    """Runs the sitecustomize that would have been found without this one."""
    import os
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _TorchFinder())
_load_shadowed()
