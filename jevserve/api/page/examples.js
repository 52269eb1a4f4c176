"use strict";

// Requests to start from.

const EXAMPLES = {
  "Support ticket": `{
    "state": "My card was charged twice for one order. Please fix this today!",
    "questions": {
      "team": {"type": "choice", "instructions": "Which team should handle this?", "criteria": {
        "billing": "payments, invoices and refunds",
        "delivery": "parcels and couriers",
        "login": "passwords and accounts"}},
      "about_money": {"type": "noul", "criteria": {
        "true": "The customer was charged or wants money back.",
        "false": "The customer asks about something other than money."}},
      "urgency": {"type": "score", "criteria": [
        "No hurry, whenever it suits you.",
        "Please do it this week.",
        "This must be fixed today!"]}}}`,
  "News desk": `{
    "state": "Scientists have photographed a galaxy that formed soon after the beginning of the universe.",
    "questions": {
      "desk": {"type": "choice", "criteria": {
        "science": null, "sport": null, "politics": null, "business": null, "culture": null}}}}`,
  Conversation: `{
    "state": [
      {"role": "user", "content": "Where is my parcel? It should have been here on Monday."},
      {"role": "assistant", "content": "I am sorry. May I have your order number?"},
      {"role": "user", "content": "It is 4471. I need it for a birthday tomorrow."}],
    "questions": {
      "topic": {"type": "choice", "criteria": {
        "late parcel": "a delivery that has not arrived",
        "return": "sending something back",
        "payment": "a charge, an invoice or a refund"}},
      "hurry": {"type": "noul", "criteria": {
        "true": "It is needed very soon.",
        "false": "There is no hurry."}}}}`,
  Blank: `{"state": "", "questions": {}}`,
};
