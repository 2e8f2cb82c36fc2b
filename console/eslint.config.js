import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "src/api/schema.ts"] },
  js.configs.recommended,
  ...ts.configs.strict,
  a11y.flatConfigs.recommended,
  hooks.configs.flat["recommended-latest"],
  {
    rules: {
      // Nothing is compiled by React's compiler, which the rule is for.
      "react-hooks/incompatible-library": "off",
      // `const { left, ...rest } = value` is how a field is left out.
      "@typescript-eslint/no-unused-vars": [
        "error",
        { ignoreRestSiblings: true, varsIgnorePattern: "^_" },
      ],
      // What scrolls must be reached by keyboard, and says by its role what it is.
      "jsx-a11y/no-noninteractive-tabindex": ["error", { roles: ["tabpanel", "group"], tags: [] }],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Everything that tools and models write is untrusted." },
      ],
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Everything that tools and models write is untrusted.",
        },
      ],
    },
  },
);
