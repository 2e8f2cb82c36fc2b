/** Hand a file over to the browser, which saves it under this name. */
export function saveFile(file: Blob, name: string): void {
  const link = document.createElement("a");
  const address = URL.createObjectURL(file);
  link.href = address;
  link.download = name;
  link.click();
  // The download holds the file by then; a later click would not.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
