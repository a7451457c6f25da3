import type { components, operations, paths } from "./api";

const asked: components["schemas"]["AuditCreate"] = {
  model: "mdl_1",
  dataset: "dat_1",
  samples: 200,
  checks: [{ kind: "uncertainty_span", epsilon: 0.15, steps: 40 }],
  policy: "standard",
};
type Answer = paths["/v1/audits"]["post"]["responses"][202]["content"]["application/json"];
export function verdict(audit: Answer): string {
  const first = audit.checks[0]?.result?.estimates["clean_accuracy"];
  const value: number | null | undefined = first?.value;
  return `${audit.verdict ?? audit.state} ${value ?? "unknown"}`;
}
type Format = NonNullable<NonNullable<operations["read_report"]["parameters"]["query"]>["format"]>;
export const format: Format = "junit";
// @ts-expect-error: a family that does not exist
export const wrong: components["schemas"]["AuditCreate"] = { ...asked, checks: [{ kind: "nothing" }] };
// @ts-expect-error: a number has no name
export const name: string = asked.samples;
