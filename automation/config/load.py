"""Loading a configuration: read, verify, merge, fill variables, check, freeze; all or nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from .files import hash_of, path_from
from .models import AdmissionConfig, Config, ServiceConfig, StateConfig
from .settings import AccessReader, pipelines, plugin_settings, routes, webhooks
from .sources import (
    BY_NAME,
    ROOT,
    access_fault,
    compare,
    gather,
    graft,
    is_secure,
    read_seal,
    unsealed,
)
from .validation import Validation
from .values import ConfigFaults, Fault, Frozen, Secret, without_values
from .yaml_tree import Map, environment_of, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sources import Origin, Sources
    from .yaml_tree import FilledTree

# Demands on a configuration: what must hold of it before it is taken, beside its form.


@dataclass(frozen=True, slots=True)
class Demands:
    """The findings that are refused instead of only reported.

    Attributes:
        variables: a variable that is not defined.
        seal: tokens, scopes and webhooks that are not as they were sealed.
        plugins: a plugin that can't be loaded.
    """

    variables: bool = True
    seal: bool = True
    plugins: bool = False


#: For commands that act on a configuration, and for a check.
TO_ACT = Demands()

#: For commands that only show a configuration, and have no secrets.
TO_LOOK = Demands(variables=False, seal=False)

#: The keys of the top. Those of Ductile that have no effect here are warned of.
_KEYS = (
    *("include", "environment_vars", "service", "state", "api", "plugin_roots", "plugins"),
    *("routes", "pipelines", "webhooks", "tokens", "workspace", "tcc_paths"),
)
_NO_EFFECT = {
    "workspace": "plugins make the folders that they need; this has no effect",
    "tcc_paths": "nobody is asked for access ahead of time here; this has no effect",
}


def load(
    directory: Path,
    *,
    environ: Mapping[str, str],
    origin: Origin = BY_NAME,
    demands: Demands = TO_ACT,
) -> Config:
    """Return the configuration of a folder.

    Args:
        directory: the folder, or its `config.yaml` under another name.
        environ: where variables are looked for, before the files that the configuration names.
        origin: how far the configuration is trusted; without `may_act` no variable is filled.
        demands: what is refused instead of only reported.

    Raises:
        ConfigFaults: something is wrong; it has every fault.
    """
    sources = gather(directory, origin)
    seal, seal_faults = read_seal(sources.directory, sources.owners)
    sources.faults += seal_faults
    raw = Map()
    for source in sources.files:
        graft(raw, source.tree, sources.faults)
    filling = fill(raw, _environment(sources, environ) if origin.may_act else {})
    config, validation = _taken(sources, raw, seal, filling, demands)
    if filling.used and (validation.faults or validation.warnings):
        plain = _taken(sources, raw, seal, fill(raw, {}), demands)[1]
        values = filling.used.values()
        validation.faults = without_values(validation.faults, plain.faults, values)
        validation.warnings = without_values(validation.warnings, plain.warnings, values)
        config = replace(config, warnings=tuple(sorted(set(validation.warnings))))
    paths = {fault.path for fault in filling.faults}  # an unfilled value has no other fault
    faults = [fault for fault in validation.faults if fault.path not in paths or not fault.path]
    needs_variables = origin.may_act and demands.variables
    faults += sources.faults + (filling.faults if needs_variables else [])
    if faults:
        raise ConfigFaults(faults, validation.warnings)
    return config


def _taken(
    sources: Sources, raw: Map, seal: Mapping[str, str], filling: FilledTree, demands: Demands
) -> tuple[Config, Validation]:
    """Return a configuration as it was filled, and the run over it with its faults."""
    root = str(sources.directory / ROOT) if not sources.files else sources.files[0].name
    validation = Validation(filling.tree, root)
    validation.warnings += sources.warnings
    config = _assemble(validation, raw, sources, seal, filling, demands)
    return config, validation


def _environment(sources: Sources, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables; those of the environment itself win."""
    from_files: dict[str, str] = {}
    for name, text in sources.variables:
        variables, faults = environment_of(text, name)
        from_files.update(variables)
        sources.faults += faults
    return {**from_files, **environ}


def _assemble(
    validation: Validation,
    raw: Map,
    sources: Sources,
    seal: Mapping[str, str],
    filling: FilledTree,
    demands: Demands,
) -> Config:
    validation.keys(_KEYS)
    validation.keys(("include",), "environment_vars")
    for key, why in _NO_EFFECT.items():
        if validation.at(key) is not None:
            validation.warn(why, key)
    service = _service(validation)
    integrity_faults = _verify(sources, raw, seal, service.admission)
    (validation.faults if demands.seal else validation.warnings).extend(integrity_faults)
    _warn_of_drift(validation, sources, seal, integrity_faults)
    _check_links(validation, sources, service.allow_symlinks)
    access = AccessReader(validation, raw, sources, seal, demands)
    tokens = access.tokens()
    files = {source.path: source.hash for source in sources.files} | access.files
    return Config(
        directory=sources.directory,
        files=Frozen(files),
        service=service,
        state=_state(validation, sources.directory),
        plugin_roots=_plugin_roots(validation, sources.directory),
        plugins=Frozen(plugin_settings(validation, service.max_workers)),
        routes=routes(validation),
        pipelines=pipelines(validation),
        webhooks=webhooks(validation, access),
        api=access.api(service.admission.require_api_auth),
        tokens=tokens,
        variables=Frozen({name: Secret(value) for name, value in filling.used.items()}),
        owners=sources.owners,
        unfilled=Frozen(filling.unfilled),
        warnings=tuple(sorted(set(validation.warnings))),
        hash=hash_of("".join(files.values()).encode()),
    )


def _state(validation: Validation, directory: Path) -> StateConfig:
    state = validation.model(StateConfig, "state") or StateConfig()
    try:
        return state.model_copy(update={"path": str(path_from(directory, state.path))})
    except ValueError as error:
        validation.refuse(str(error), "state", "path")
        return state


def _service(validation: Validation) -> ServiceConfig:
    service = validation.model(ServiceConfig, "service") or ServiceConfig()
    if service.strict_mode:
        validation.warn("write service.admission, whose gates it opens", "service", "strict_mode")
    if "job_queue_retention_s" in service.model_fields_set:
        message = "jobs stay in the log, which 'bus archive' keeps small; this has no effect"
        validation.warn(message, "service", "job_queue_retention")
    all_of_them = AdmissionConfig(**dict.fromkeys(AdmissionConfig.model_fields, True))
    return service.model_copy(
        update={
            "admission": all_of_them if service.strict_mode else service.admission,
            "place": validation.place("service", "on_failure"),
        }
    )


def _verify(
    sources: Sources, raw: Map, seal: Mapping[str, str], admission: AdmissionConfig
) -> list[Fault]:
    """Return a fault for each file that must be unchanged since it was sealed and is not."""
    is_strict = admission.fail_on_drift or admission.verify_integrity_on_boot
    faults = [
        compare(source.name, source.path, source.hash, seal)
        for number, source in enumerate(sources.files)
        if is_strict or is_secure(source, is_root=number == 0)
    ]
    if sources.files and not sources.faults:  # else it is not known what all of them say
        faults.append(access_fault(sources.files[0], raw, seal))
    return [fault for fault in faults if fault is not None]


def _warn_of_drift(
    validation: Validation, sources: Sources, seal: Mapping[str, str], integrity_faults: list[Fault]
) -> None:
    """Warn of the other files that are not as they were sealed, and of a folder without a seal."""
    if not seal:
        validation.warnings.append(unsealed(sources.directory))
        return
    for source in sources.files:
        fault = compare(source.name, source.path, source.hash, seal)
        if fault is not None and fault not in integrity_faults:
            validation.warnings.append(fault)


def _check_links(validation: Validation, sources: Sources, allowed: bool) -> None:
    for link, spot in sources.links:
        if allowed:
            validation.warnings.append(Fault(*spot, "", f"{link} is a symlink"))
        else:
            advice = "name the file itself, or set service.allow_symlinks: true"
            validation.faults.append(Fault(*spot, "", f"{link} is a symlink; {advice}"))


def _plugin_roots(validation: Validation, directory: Path) -> tuple[Path, ...]:
    """Return the folders of plugins, each once, in their order."""
    roots: dict[str, Path] = {}
    for number, entry in enumerate(validation.list("plugin_roots")):
        if not isinstance(entry, str) or not entry:
            validation.refuse("write the path of a folder", "plugin_roots", number)
            continue
        try:
            root = path_from(directory, entry)
        except ValueError as error:
            validation.refuse(str(error), "plugin_roots", number)
            continue
        if not os.path.isdir(root):  # pathlib's raises where a name is too long
            validation.warn(f"there is no folder {root}", "plugin_roots", number)
        roots.setdefault(os.path.realpath(root), root)
    return tuple(roots.values())
