"""Why a site is not built."""


class SiteError(Exception):
    """One sentence: what is wrong with the pages, the place or the installation."""
