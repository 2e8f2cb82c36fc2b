// Not the whole of the library: its test part asks for a validator that evaluates code.
import Form from "@rjsf/core/lib/components/Form.js";
import { useMemo, useState } from "react";

import type { SchemaFormProps } from "@/parts/form/SchemaForm";
import styles from "@/parts/form/form.module.css";
import { formSchema, uiSchema } from "@/parts/form/schema";
import { errorSchemaOf, validator } from "@/parts/form/validator";

/** The fields of a schema. They are no HTML form: the key Enter sends nothing. */
export default function SchemaFields({
  schema,
  value,
  onChange,
  faults,
  isSecret = false,
  isDisabled = false,
  id,
}: SchemaFormProps & { id: string }) {
  const shown = useMemo(() => formSchema(schema), [schema]);
  // Of the first value: a field must not become another one while somebody types into it.
  const [look] = useState(() => uiSchema(shown, value, isSecret));
  const extra = useMemo(() => errorSchemaOf(faults ?? []), [faults]);
  return (
    <Form
      className={styles.form}
      schema={shown}
      uiSchema={look}
      validator={validator}
      formData={value}
      onChange={(event) => onChange(event.formData)}
      extraErrors={extra}
      idPrefix={id}
      tagName="div"
      disabled={isDisabled}
      showErrorList={false}
      liveValidate
      noHtml5Validate
    />
  );
}
