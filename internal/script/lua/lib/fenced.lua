-- A mutex with counted grants in the queue.
-- KEYS  2 the counter
local kind = ':fenced'

local function take(owner)
  local token = count(KEYS[2], false) -- nothing if the counter cannot be used: a client that asks is told why
  return token and give(owner, 1) and string.format('%.0f', token)
end
