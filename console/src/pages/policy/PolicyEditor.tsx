import { useEffect, useEffectEvent, useRef } from "react";

import { editorState, EditorView, showLine, showNotes } from "@/pages/policy/editor_setup";
import type { PolicyNote } from "@/pages/policy/notes";
import styles from "@/pages/policy/Policy.module.css";

interface PolicyEditorProps {
  /** What the editor begins with; another `name` begins anew. */
  name: string;
  text: string;
  label: string;
  isReadOnly: boolean;
  notes: PolicyNote[];
  line: number | null;
  onChange: (text: string) => void;
  onLine: (line: number) => void;
}

/** The file with its line numbers. Faults are marked where they are. */
export function PolicyEditor(props: PolicyEditorProps) {
  const { name, text, label, isReadOnly, notes, line } = props;
  const frame = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const onChange = useEffectEvent((changed: string) => props.onChange(changed));
  const onLine = useEffectEvent((chosen: number) => props.onLine(chosen));
  const firstText = useEffectEvent(() => text);

  const shown = isReadOnly ? text : name;
  useEffect(() => {
    if (frame.current === null) return;
    const state = editorState({ text: firstText(), label, isReadOnly, onChange, onLine });
    const editor = new EditorView({ state, parent: frame.current });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = null;
    };
  }, [shown, label, isReadOnly]);

  useEffect(() => {
    if (view.current !== null) showNotes(view.current, notes);
  }, [notes, shown, label, isReadOnly]);

  useEffect(() => {
    if (view.current !== null) showLine(view.current, line);
  }, [line, shown, label, isReadOnly]);

  return <div ref={frame} className={styles.editor} />;
}
