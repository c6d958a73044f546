/** Return how far right in an element a pointer is, in the element's own pixels: a slide shows it enlarged. */
export function placeIn(element: Element, width: number, event: MouseEvent): number {
  const box = element.getBoundingClientRect();
  return ((event.clientX - box.left) * width) / box.width;
}
