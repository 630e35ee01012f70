"""A browser tab for tests."""


class Watch:
    """A browser tab that remembers every complaint, and every request beyond the site."""

    def __init__(self, page, home):
        self.page, self.home, self.seen = page, home, []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message):
        if message.type in {"error", "warning"}:
            self.seen.append(f"console: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.home, "data:", "blob:", "about:")):
            self.seen.append(f"request: {request.url}")

    def open(self, name):
        self.seen.clear()
        self.page.goto(f"{self.home}/{name}.html", wait_until="load")
