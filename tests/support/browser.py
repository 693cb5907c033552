"""Open pages in a real browser without network access.

Playwright is imported only when needed, because every pytest process imports this module.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HEIGHT = 900
# In containers, Chromium runs as root, which requires --no-sandbox. Most other flags prevent network access.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium; skip the test if it is not installed."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; run: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page opened from a file."""

    page: Page
    complaints: list[str] = field(default_factory=list)  # console messages, errors, dialogs and network requests

    def look(self, width: int, scheme: str) -> None:
        """Set the width of the window and the color scheme, `light` or `dark`."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=scheme)

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open the page in Chromium."""
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        found = Opened(page)
        page.on("console", lambda message: found.complaints.append(message.text))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("dialog", lambda dialog: found.complaints.append(dialog.message))
        page.on("request", lambda request: _own(request.url, path) or found.complaints.append(request.url))
        page.goto(path.as_uri())
        yield found


def _own(url: str, path: Path) -> bool:
    return url == path.as_uri() or url.startswith("data:")


# JavaScript that returns the lowest WCAG 2.2 contrast between a visible text and its background, and this text.
LEAST_CONTRAST = """
() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = channels(getComputedStyle(one).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  let least = [Infinity, "nothing"];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("").trim();
    if (!text || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = channels(element.closest("svg") ? style.fill : style.color);
    const [light, dark] = [luminance(ink), luminance(behind(element))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < least[0]) least = [contrast, text];
  }
  return least;
}
"""
