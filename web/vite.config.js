// The build makes one file: page.html with its script and style inside, so that it opens from disk.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Puts the one script and the one style of the bundle into template.html. */
function onePage() {
  return {
    name: "one-page",
    enforce: "post",
    generateBundle(_options, bundle) {
      const files = Object.values(bundle);
      const script = files.find((file) => file.type === "chunk").code;
      const style = String(files.find((file) => file.fileName.endsWith(".css")).source);
      for (const name of Object.keys(bundle)) delete bundle[name];
      const licence = readFileSync(here("node_modules/uplot/LICENSE"), "utf8").trim().replaceAll("--", "- -");
      // Nothing in the script may end the element it stands in.
      const inert = script
        .trim()
        .replace(/<(?=\/script|!--)/gi, "\\x3c")
        .replace(/\r\n/g, "\n");
      const page = readFileSync(here("template.html"), "utf8")
        .replace("<!-- licence -->", () => `<!-- Contains uPlot 1.6.32.\n${licence}\n-->`)
        .replace("/* style */", () => style.trim())
        .replace("SCRIPT-HASH", createHash("sha256").update(inert).digest("base64"))
        .replace("/* script */", () => inert);
      this.emitFile({ type: "asset", fileName: "page.html", source: page });
    },
  };
}

export default defineConfig({
  plugins: [onePage()],
  build: {
    target: "es2022",
    outDir: here("../src/stepscore/report/page/assets"),
    emptyOutDir: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    lib: { entry: here("src/main.ts"), formats: ["iife"], name: "stepscoreReport", fileName: "page" },
  },
});
