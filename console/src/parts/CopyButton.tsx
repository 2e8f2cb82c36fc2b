import { Check, Copy } from "lucide-react";
import { useState } from "react";

import { messages } from "@/messages";
import { Button } from "@/parts/Button";

/** Copies a text, and says that it did. */
export function CopyButton({
  text,
  label = messages.parts.copy,
}: {
  text: string;
  label?: string;
}) {
  const [isCopied, setIsCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setIsCopied(true);
  };
  return (
    <Button size="small" onClick={() => void copy()} onBlur={() => setIsCopied(false)}>
      {isCopied ? <Check aria-hidden size={14} /> : <Copy aria-hidden size={14} />}
      <span aria-live="polite">{isCopied ? messages.parts.copied : label}</span>
    </Button>
  );
}
