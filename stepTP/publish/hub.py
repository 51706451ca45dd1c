"""A published folder to the Hugging Face hub, or to a server of the same interface (HF_ENDPOINT)."""

from pathlib import Path
from typing import cast

from stepTP.manifest import MANIFEST, Entry, intact
from stepTP.publish.folder import PublishError, require_extra
from stepTP.publish.published import load_published


def upload(folder: Path, repo: str, *, private: bool = False) -> str:
    """Uploads a published folder as one commit, and returns the address of the dataset. Makes the repository at need.

    What the manifest does not name (an export that was made there) stays here. Files of an earlier version that
    this one lacks are deleted by the same commit. Raises PublishError, RunError.
    """
    require_extra("huggingface_hub")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    files = load_published(folder).files
    for name, file in files.items():
        if not intact(folder / name, Entry(sha256=file.sha256, bytes=file.bytes, counts={})):
            raise PublishError(f"{folder / name}: missing or damaged: publish the run again, or download it again")
    network_error = cast(type[Exception], HfHubHTTPError.__bases__[0])  # of whichever httpx the client is made with
    api = HfApi()
    try:
        made = api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type="dataset",
            folder_path=folder,
            commit_message="Publish the dataset",
            allow_patterns=[MANIFEST, *files],
            delete_patterns=["*/*.parquet"],
        )
    except HFValidationError as error:
        raise PublishError(f"{repo}: {_first_line(error)}: name it OWNER/NAME") from None
    except LocalTokenNotFoundError:
        raise PublishError(f"{repo}: no token: run `hf auth login`, or set HF_TOKEN to one that may write") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        remedy = "log in with a token that may write there (`hf auth login`)" if status in (401, 403) else "try again"
        raise PublishError(f"{repo}: the hub refused it: {_first_line(error)}: {remedy}") from None
    except (OSError, network_error) as error:
        raise PublishError(f"{repo}: {_first_line(error)}: check the network, and HF_ENDPOINT") from None
    return str(made)


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line), type(error).__name__)
