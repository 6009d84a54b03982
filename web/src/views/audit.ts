// The audit: what the judge does where the right answer is known beforehand.
import "../styles/overview.css";
import "../styles/audit.css";
import type { Context, View } from "../app";
import { agreementSection } from "../audit/agreement";
import { headlineSection, opening } from "../audit/headline";
import { probeSections } from "../audit/probes";
import { h } from "../dom";
import { warningLine } from "../overview/warnings";

export function audit(context: Context): View {
  const { page } = context.data;
  const data = page.audit!;
  return {
    element: h(
      "div",
      { class: "stack" },
      opening(data),
      warningLine(page.warnings),
      headlineSection(context, data),
      probeSections(context, data),
      agreementSection(context, data),
    ),
  };
}
