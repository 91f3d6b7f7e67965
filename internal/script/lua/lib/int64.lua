-- 64-bit numbers are handled as text: numbers in Lua are exact up to 2^53 only.
-- int64 returns the text if it is a 64-bit number in the form that the server writes, else nil.
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

-- exact returns a number as a reply: as text if a number in Lua is not exact.
local function exact(text)
  local n = tonumber(text)
  return math.abs(n) <= 2 ^ 53 and n or text
end
-- unreadable raises an error that names a key and says what to do.
local function unreadable(key, what, advice)
  error('the key ' .. key .. ' does not hold ' .. what .. ': ' .. advice, 0)
end
-- number returns the text of the number in a key, or nil if the key does not exist. It fails on a value that is not a number.
local function number(key)
  local text = redis.call('get', key)
  if text and not int64(text) then unreadable(key, 'a whole number of 64 bits', 'use another name, or check which program writes the key') end
  return text or nil
end
-- whole returns the number in a key, or nil if the key does not exist. It fails on a number that is not exact in Lua.
local function whole(key)
  local text = number(key)
  local n = tonumber(text)
  if n and math.abs(n) > 2 ^ 53 then unreadable(key, 'a number between -2^53 and 2^53', 'delete it and set it anew') end
  return n
end
