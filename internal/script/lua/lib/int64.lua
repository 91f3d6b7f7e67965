-- 64-bit numbers stay text: a number of Lua is exact up to 2^53 only.
-- The text of a number if it is one as the server writes it, else nil.
local function int64(text)
  if text == '0' then return text end
  local sign, digits = string.match(text, '^(-?)([1-9]%d*)$')
  local most = sign == '-' and '9223372036854775808' or '9223372036854775807'
  if digits and (#digits < #most or #digits == #most and digits <= most) then return text end
  return nil
end
local function less(a, b)
  local down, below = string.sub(a, 1, 1) == '-', string.sub(b, 1, 1) == '-'
  if down ~= below then return down end
  if down then a, b = b, a end
  if #a ~= #b then return #a < #b end
  return a < b
end

-- exact returns a number as a reply: as text where a number of Lua is not exact.
local function exact(text)
  local n = tonumber(text)
  return math.abs(n) <= 2 ^ 53 and n or text
end
-- unreadable fails with an error that names a key and says what to do.
local function unreadable(key, what, advice)
  error('the key ' .. key .. ' does not hold ' .. what .. ': ' .. advice, 0)
end
-- number returns the text of the number in a key, or nil if there is no such key. It fails on a value of another kind.
local function number(key)
  local text = redis.call('get', key)
  if text and not int64(text) then unreadable(key, 'a whole number of 64 bits', 'use another name, or delete the key') end
  return text or nil
end
-- whole returns the number in a key that Lua can calculate with, or nil if there is no such key.
local function whole(key)
  local text = number(key)
  local n = tonumber(text)
  if n and math.abs(n) > 2 ^ 53 then unreadable(key, 'a number between -2^53 and 2^53', 'delete it and set it anew') end
  return n
end
