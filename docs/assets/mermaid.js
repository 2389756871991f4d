// The theme calls mermaid.initialize once and mermaid.render for every diagram. This stand-in loads the library, which is large, with the
// first diagram of a page, and from this site instead of another host.
(() => {
  const library = new URL("mermaid.min.js", document.currentScript.src).href;
  const waiting = window.mermaid = {
    initialize(config) { waiting.config = config; },
    render(id, text) {
      waiting.loaded ??= load();
      return waiting.loaded.then(() => window.mermaid.render(id, text));
    },
  };

  function load() {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = library;
      script.onload = () => {
        window.mermaid.initialize(waiting.config);
        resolve();
      };
      script.onerror = () => reject(new Error(`${library} is missing: build the site with make site`));
      document.head.append(script);
    });
  }
})();
