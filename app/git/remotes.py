"""Resolve remote repositories, fetch from them and push to them."""

import os
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.commits import CommitRange, branch_range, resolve_commit_range, single_commit_range
from app.git.run_git import GitFailed

_NETWORK_SECONDS = 300.0
"""Timeout of a fetch or a push."""
PROPOSAL_REFERENCES = "refs/signoff/"
"""Prefix of the references that hold proposals."""
_FETCHED_REFERENCE = "refs/fetched"
_PULL_REQUEST_PAGES = (
    ("refs/pull/{}/head", "#{}", re.compile(r"(?P<project>/[^/]+/[^/]+)/pulls?/(?P<number>\d+)(?:/.*)?")),
    ("refs/merge-requests/{}/head", "!{}", re.compile(r"(?P<project>/.+?)/-/merge_requests/(?P<number>\d+)(/.*)?")),
)
"""Pages of GitHub or Gitea, and of GitLab: the reference, the short name, the pattern of the URL's path."""
_COMMIT_PAGE = re.compile(r"(?P<project>/.+?)(?:/-)?/commit/(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})/?")
_SCP_ADDRESS = re.compile(r"(?:[^/@\s]+@)?(?P<host>[^/:\s]+):(?!//)(?P<path>\S+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class FetchSource(Struct, frozen=True):
    """The repository and the reference that a fetch reads."""

    url: str
    reference: str
    """A full reference, or a commit's id."""
    name: str
    """Name in messages: `owner/project#12`."""
    whole: bool
    """True for all commits that HEAD lacks, False for one commit."""


def resolve_or_fetch_commit_range(borrowed: ObjectBorrowingRepository, arguments: list[str]) -> CommitRange:
    """Return the commit range that the user names; fetch it into the temporary repository if it is not here.

    The user's repository stays unchanged.

    Args:
        arguments: A reference, a range or a pull request's address; or a remote (a name or an address) and a
            reference.

    Raises:
        GitFailed: the range cannot be found or fetched; the message says what to do.
    """
    if len(arguments) == 1:
        (name,) = arguments
        source = _parse_page_address(borrowed, name)
        if source is None:
            if commit_range := resolve_commit_range(borrowed, name):
                return commit_range
            if not name.removeprefix("refs/").startswith("signoff/"):
                raise GitFailed(
                    f"There is no commit, branch or range {name} here; for one elsewhere name the remote before it, "
                    "or give the address of a pull request."
                )
            source = _parse_remote_reference(borrowed, default_remote(borrowed), name)
    else:
        source = _parse_remote_reference(borrowed, *arguments)
    commit = _fetch(borrowed, source)
    return (branch_range if source.whole else single_commit_range)(borrowed, commit, source.name)


def default_remote(borrowed: ObjectBorrowingRepository) -> str:
    """Return the remote to use by default: `origin`, or the only one; raise GitFailed if there is neither."""
    names = remote_names(borrowed)
    if "origin" in names:
        return "origin"
    if len(names) == 1:
        return names[0]
    if names:
        raise GitFailed(f"Which remote? Name one: {', '.join(sorted(names))}.")
    raise GitFailed("The repository has no remote; name one: the address or the folder of another repository.")


def remote_names(borrowed: ObjectBorrowingRepository) -> list[str]:
    """Return the names of the remotes."""
    return [key[len("remote.") : -len(".url")] for key in borrowed.settings if re.fullmatch(r"remote\..+\.url", key)]


def remote_url(borrowed: ObjectBorrowingRepository, remote: str, *, pushing: bool = False) -> str:
    """Return the URL of a remote; a folder as an absolute path.

    Raises:
        GitFailed: `remote` is neither the name of a remote nor an address, or signoff refuses its kind of address.
    """
    url = (pushing and borrowed.setting(f"remote.{remote}.pushurl")) or borrowed.setting(f"remote.{remote}.url")
    if not url:
        if not (
            _URL.match(remote)
            or _SCP_ADDRESS.fullmatch(remote)
            or Path(remote).is_dir()
            or remote.endswith(".bundle")
        ):
            known = ", ".join(sorted(remote_names(borrowed))) or "none"
            raise GitFailed(f"There is no remote {remote} here (remotes: {known}).")
        return remote if _URL.match(remote) or _SCP_ADDRESS.fullmatch(remote) else str(Path(remote).absolute())
    if url.startswith("-") or "::" in url.partition("/")[0]:
        raise GitFailed(f"signoff does not support the address of {remote} ({url}).")
    if _URL.match(url) or _SCP_ADDRESS.fullmatch(url):
        return url
    return os.path.normpath(borrowed.top / Path(url).expanduser())


def push_commit(
    borrowed: ObjectBorrowingRepository, commit: str, remote: str, reference: str, *, force: bool
) -> None:
    """Push a commit to a reference of a remote.

    Raises:
        GitFailed: the remote refuses it, or its reference has other commits.
    """
    url = remote_url(borrowed, remote, pushing=True)
    # If the remote is a folder on this machine, its hooks would run here: disable them.
    receiver = f"--receive-pack=git {_RECEIVER_OPTIONS} receive-pack"
    is_on_other_machine = _SCP_ADDRESS.fullmatch(url) or (_URL.match(url) and not url.lower().startswith("file:"))
    local = () if is_on_other_machine else (receiver,)
    refspec = f"{'+' if force else ''}{commit}:{reference}"
    try:
        borrowed.run_remote_command(
            "push", "--no-verify", "--quiet", *local, "--", url, refspec, seconds=_NETWORK_SECONDS
        )
    except GitFailed as error:
        if "rejected" in str(error):
            raise GitFailed(
                f"{remote} has another {reference}: `--as NAME` puts it under another name, `--force` in its place."
            ) from error
        raise


def push_notes(borrowed: ObjectBorrowingRepository, remote: str, reference: str) -> None:
    """Push notes to a remote; raise GitFailed with what to do if it fails."""
    try:
        push_commit(borrowed, borrowed.resolve_object_id(reference), remote, reference, force=False)
    except GitFailed as error:
        raise GitFailed(
            f"The proposal is pushed, but not its signed review: {remote} has other notes. Join them by `git fetch` "
            "and `signoff notes` (see `signoff notes --install`), and push again with --force."
        ) from error


_RECEIVER_OPTIONS = (
    "-c core.hooksPath=/dev/null -c core.alternateRefsCommand=true -c core.fsmonitor=false -c gc.auto=0"
)


def _parse_page_address(borrowed: ObjectBorrowingRepository, name: str) -> FetchSource | None:
    """Return the fetch target for the web address of a pull request or commit; None for text that is no web address.

    Raises:
        GitFailed: the address is of another page.
    """
    if not re.match(r"https?://", name):
        return None
    page = urlsplit(name)
    for reference, short_name, pattern in _PULL_REQUEST_PAGES:
        if match := pattern.fullmatch(page.path):
            number = match["number"]
            project = match["project"].strip("/")
            url = _find_project_url(borrowed, page, project)
            return FetchSource(url, reference.format(number), f"{project}{short_name.format(number)}", whole=True)
    if match := _COMMIT_PAGE.fullmatch(page.path):
        project = match["project"].strip("/")
        url = _find_project_url(borrowed, page, project)
        return FetchSource(url, match["commit"], f"{project}@{match['commit'][:7]}", whole=False)
    raise GitFailed(
        f"{name} is not the address of a pull request or a commit; name the repository and a reference: "
        "`--from URL REF`."
    )


def _find_project_url(borrowed: ObjectBorrowingRepository, page: SplitResult, project: str) -> str:
    """Return the URL of the configured remote for the project of a web page, to which the user has access; without
    such a remote, the project's URL on the page's host.
    """
    for name in remote_names(borrowed):
        url = borrowed.setting(f"remote.{name}.url")
        scp_address = _SCP_ADDRESS.fullmatch(url)
        parts = urlsplit(url)
        host, path = (scp_address["host"], scp_address["path"]) if scp_address else (parts.hostname, parts.path)
        if ((host or "").lower(), path.strip("/").removesuffix(".git")) == ((page.hostname or "").lower(), project):
            return url
    return f"{page.scheme}://{page.netloc}/{project}.git"


def _parse_remote_reference(borrowed: ObjectBorrowingRepository, remote: str, name: str) -> FetchSource:
    """Return the fetch target for a reference of a remote.

    A short name is that of a proposal, a pull request or a branch.

    Raises:
        GitFailed: the name is not a reference, or there is no such remote.
    """
    if name.startswith("-") or any(sign in name for sign in (":", "*", "..", " ", "\n")):
        raise GitFailed(f"{name} is not a reference; a range has to be fetched first: `git fetch`.")
    if name.startswith("signoff/") or re.fullmatch(r"(?:pull/\d+/(?:head|merge)|merge-requests/\d+/head)", name):
        reference = f"refs/{name}"
    elif re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}|HEAD", name) or name.startswith("refs/"):
        reference = name
    else:
        reference = f"refs/heads/{name}"
    is_range = reference == "HEAD" or reference.startswith(("refs/heads/", "refs/pull/", "refs/merge-requests/"))
    return FetchSource(remote_url(borrowed, remote), reference, f"{remote} {name}", is_range)


def _fetch(borrowed: ObjectBorrowingRepository, source: FetchSource) -> str:
    """Fetch into the temporary repository; return the id of the fetched commit."""
    if head := borrowed.resolve_object_id("HEAD"):
        borrowed.add_reference("refs/heads/here", head)
    try:
        borrowed.run_remote_command(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--",
            source.url,
            f"+{source.reference}:{_FETCHED_REFERENCE}",
            seconds=_NETWORK_SECONDS,
        )
    except GitFailed as error:
        raise GitFailed(f"{source.name} could not be fetched. {error}") from error
    output = borrowed.run_query("rev-parse", "--verify", "--quiet", f"{_FETCHED_REFERENCE}^{{commit}}")
    return output.decode().strip()
