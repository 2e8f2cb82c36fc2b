/** The parts of the editor. Loaded with the policy page, and with nothing else. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField, type Extension } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  type DecorationSet,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { rangeOf, type PolicyNote } from "@/pages/policy/notes";
import { cspNonce } from "@/shell/nonce";

const markLine = StateEffect.define<number | null>();

/** The line that the address points at. */
const markedLine = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, transaction) => {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(markLine)) continue;
      const line = effect.value;
      const { doc } = transaction.state;
      next =
        line === null || line < 1 || line > doc.lines
          ? Decoration.none
          : Decoration.set([
              Decoration.line({ class: "cm-marked-line" }).range(doc.line(line).from),
            ]);
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-name)" },
  { tag: [tags.string, tags.content], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--code-comment)" },
  { tag: [tags.keyword, tags.meta], color: "var(--code-keyword)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "var(--text-small)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--font-code)", lineHeight: "1.6", maxHeight: "70dvh" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": {
    backgroundColor: "var(--surface-sunken)",
    color: "var(--ink-faint)",
    borderRight: "1px solid var(--line)",
  },
  ".cm-lineNumbers .cm-gutterElement": { cursor: "pointer" },
  ".cm-marked-line": { backgroundColor: "var(--warn-soft)", boxShadow: "inset 3px 0 var(--warn)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "var(--accent-soft) !important",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--surface-raised)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
  },
});

/**
 * Typing over a selection. Left to the browser, it wraps the new text in an element with a style of
 * its own for a moment, which the content security policy of the page refuses.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { state } = view;
    const isOver = state.selection.ranges.some((range) => !range.empty);
    if (event.inputType !== "insertText" || !event.data || !isOver || state.readOnly) return false;
    event.preventDefault();
    view.dispatch(state.replaceSelection(event.data), {
      userEvent: "input.type",
      scrollIntoView: true,
    });
    return true;
  },
});

export interface EditorOptions {
  text: string;
  label: string;
  isReadOnly: boolean;
  onChange: (text: string) => void;
  onLine: (line: number) => void;
}

/** The state of an editor with YAML in it. */
export function editorState(options: EditorOptions): EditorState {
  const extensions: Extension[] = [
    EditorView.cspNonce.of(cspNonce()),
    lineNumbers({
      domEventHandlers: {
        mousedown: (view, block) => {
          options.onLine(view.state.doc.lineAt(block.from).number);
          return true;
        },
      },
    }),
    highlightSpecialChars(),
    yaml(),
    syntaxHighlighting(colours),
    lintGutter(),
    markedLine,
    look,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
    EditorState.readOnly.of(options.isReadOnly),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) options.onChange(update.state.doc.toString());
    }),
    keymap.of([...searchKeymap, ...defaultKeymap, ...historyKeymap]),
  ];
  if (!options.isReadOnly) {
    // No Tab: it leaves the editor, so that nobody who uses the keyboard is caught in it.
    extensions.push(history(), indentUnit.of("  "), typeOver);
  }
  return EditorState.create({ doc: options.text, extensions });
}

/** Put the faults and warnings on their lines. */
export function showNotes(view: EditorView, notes: PolicyNote[]): void {
  const { doc } = view.state;
  const lineAt = (line: number) => (line >= 1 && line <= doc.lines ? doc.line(line) : null);
  const diagnostics = notes.map((note): Diagnostic => {
    const { from, to } = rangeOf(note, lineAt);
    return { from, to, severity: note.level, message: note.message };
  });
  view.dispatch(setDiagnostics(view.state, diagnostics));
}

/** Mark a line, and bring it into sight. */
export function showLine(view: EditorView, line: number | null): void {
  const { doc } = view.state;
  const isThere = line !== null && line >= 1 && line <= doc.lines;
  const scroll = isThere ? [EditorView.scrollIntoView(doc.line(line).from, { y: "center" })] : [];
  view.dispatch({ effects: [markLine.of(line), ...scroll] });
}

export { EditorView };
