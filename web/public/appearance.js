// Sets theme and language before anything is painted, so that nobody sees a white flash at night.
(function () {
  try {
    var theme = localStorage.getItem("codehub.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    var language = localStorage.getItem("codehub.language");
    if (!language) language = (navigator.language || "en").toLowerCase().indexOf("ko") === 0 ? "ko" : "en";
    document.documentElement.lang = language;
  } catch (_) {
    // Storage may be forbidden: then the system's theme and English are what there is.
  }
})();
