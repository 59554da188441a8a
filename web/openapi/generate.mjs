/**
 * OpenAPI document on standard input, TypeScript types on standard output. Of the document only what goes in and out
 * (`components`): which call answers with what is said once per call, in `api/queries.ts` and beside each form.
 */
import openapiTS, { astToString } from "openapi-typescript";

let text = "";
for await (const piece of process.stdin.setEncoding("utf8")) text += piece;
const document = { ...JSON.parse(text), paths: {} };
process.stdout.write(
  "// Written by `make api-types` from the API's OpenAPI document. Do not edit: `make check` compares.\n" +
    astToString(await openapiTS(document, { alphabetize: true })),
);
